package compare

// Verdicts of a row, and of a whole report.
const (
	Better        = "better"
	Worse         = "worse"
	Same          = "same"
	Undecided     = "undecided"
	TooFew        = "too_few_samples"
	Added         = "added"
	Missing       = "missing"
	NotComparable = "not_comparable"

	Regression  = "regression"
	Improvement = "improvement"
)
