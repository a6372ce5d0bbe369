package review

// mediaType returns "": the table of types would make the program for browsers too large.
func mediaType([]byte) string { return "" }
