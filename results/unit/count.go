package unit

import (
	"fmt"
	"strings"
)

// Count is a number with what it counts, as people say it: "1 NIC", "2 NICs", "3 copies", "2 requests at once". The noun is one of
// them in the singular; what follows its first word stays as it is.
func Count[N ~int | ~int64](n N, noun string) string {
	word, rest, _ := strings.Cut(noun, " ")
	if n != 1 {
		if stem, ok := strings.CutSuffix(word, "y"); ok && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "e") {
			word = stem + "ies"
		} else {
			word += "s"
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", n, word, rest))
}
