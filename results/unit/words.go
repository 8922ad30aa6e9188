package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Decoding says of an error of encoding/json or strconv what is wrong with the text that was read, in words of the text: the place, the key,
// what stands there and what belongs there. It unwraps to err; other errors come back as they are.
func Decoding(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var number *strconv.NumError
	var date *time.ParseError
	text := ""
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end"):
		text = "the JSON ends in the middle of a value"
	case errors.Is(err, io.EOF):
		text = "there is no JSON in it"
	case syntax != nil:
		text = fmt.Sprintf("not valid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		got := kind.Value
		if n, ok := strings.CutPrefix(got, "number "); ok {
			got = n
		} else {
			got = jsonKinds[got]
		}
		where := kind.Field
		if where == "" {
			where = fmt.Sprintf("byte %d", kind.Offset)
		}
		text = fmt.Sprintf("%s is %s, not %s", where, got, wanted(kind.Type))
	case errors.As(err, &number):
		text = fmt.Sprintf("%q is not a number", number.Num)
		if errors.Is(number.Err, strconv.ErrRange) {
			text = number.Num + " is too large"
		}
	case errors.As(err, &date):
		text = fmt.Sprintf("%q is not a time such as 2006-01-02T15:04:05Z", date.Value)
	default:
		return err
	}
	return decoding{text, err}
}

// jsonKinds are the words of UnmarshalTypeError.Value.
var jsonKinds = map[string]string{"string": "text", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object", "null": "null"}

// wanted is the kind of value that a type is read from.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "an object"
}

// decoding says text, and unwraps to what it puts in words.
type decoding struct {
	text string
	err  error
}

func (d decoding) Error() string { return d.text }
func (d decoding) Unwrap() error { return d.err }
