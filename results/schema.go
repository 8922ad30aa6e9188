package results

import _ "embed"

//go:embed schema.json
var schemaJSON string

// SchemaJSON is the JSON Schema (draft 2020-12) of one line of a result file. It is made from the types of this
// package; the package's tests hold it to them, and every file that is written to it.
func SchemaJSON() string { return schemaJSON }
