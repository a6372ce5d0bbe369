// Package strictyaml reads YAML files that may be hostile. Every value knows its file and
// line, every key must be known, and nothing is ignored. One pass reports all errors,
// each with its position, the nearest known key and the allowed values.
//
// A file becomes a tree of [Node]. Flags and environment variables are set in the same
// tree: they pass the same checks and keep their origin. A [Key] describes as data which
// values are allowed where. The checks, the printed configuration and the documentation
// come from it.
package strictyaml
