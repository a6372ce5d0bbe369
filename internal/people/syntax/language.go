package syntax

import (
	"path"
	"slices"
	"strings"
)

// A language is what a scanner knows of a language.
type language struct {
	comments []string // what begins a comment to the end of the line
	spaced   bool     // a comment begins only after a space
	quotes   []quote  // longer ones first
	keywords []string
	fold     bool   // keywords may be in upper case
	first    bool   // keywords are only the first word of a line
	calls    bool   // a word before ( is a name
	keys     byte   // a first word before this sign is a name; 0 for none
	inner    bool   // so is one that is not the first
	sigils   string // signs before variables, annotations and directives
	inWords  string // signs that may be in a word
	tags     bool   // there are only tags, comments and text
	begin    func(*reader)
}

// A quote begins and ends a string or comment.
type quote struct {
	kind        Kind
	open, close string
	escape      bool // a backslash takes away the meaning of the next character
	long        bool // it may continue on the next line
	char        bool // it holds one character
	inTag       bool // it counts only in a tag
}

// end returns the length of a text up to the end of the string or comment, or -1.
func (q quote) end(text string) int {
	if !q.escape {
		if i := strings.Index(text, q.close); i >= 0 {
			return i + len(q.close)
		}
		return -1
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], q.close):
			return i + len(q.close)
		}
	}
	return -1
}

func (l *language) isKeyword(word string) bool { return slices.Contains(l.keywords, word) }

// These quotes are those of many languages.
var (
	block    = quote{kind: Comment, open: "/*", close: "*/", long: true}
	markup   = quote{kind: Comment, open: "<!--", close: "-->", long: true}
	double   = quote{kind: String, open: `"`, close: `"`, escape: true}
	single   = quote{kind: String, open: `'`, close: `'`, escape: true}
	verbatim = quote{kind: String, open: `'`, close: `'`}
	char     = quote{kind: String, open: `'`, close: `'`, escape: true, char: true}
	template = quote{kind: String, open: "`", close: "`", escape: true, long: true}
	raw      = quote{kind: String, open: "`", close: "`", long: true}
	triple   = quote{kind: String, open: `"""`, close: `"""`, escape: true, long: true}
	triple1  = quote{kind: String, open: `'''`, close: `'''`, escape: true, long: true}
)

// languageOf returns the language of a file by its name, or nil.
func languageOf(name string) *language {
	base := strings.ToLower(path.Base(name))
	switch {
	case base == "dockerfile" || base == "containerfile" || strings.HasPrefix(base, "dockerfile."):
		return dockerfile()
	case base == "makefile" || base == "gnumakefile" || base == "justfile":
		return makefile()
	case base == "go.mod" || base == "go.work":
		return &language{comments: []string{"//"}, quotes: []quote{double}, keywords: []string{"module", "go", "toolchain", "require", "replace", "exclude", "retract", "use", "tool", "godebug"}, first: true, inWords: "-./"}
	case strings.HasPrefix(base, ".bash") || base == ".profile" || base == ".zshrc" || base == ".envrc" || base == "pkgbuild":
		return shell()
	case base == ".gitignore" || base == ".dockerignore" || base == "requirements.txt" || base == "codeowners" || strings.HasPrefix(base, ".env"):
		return &language{comments: []string{"#"}, spaced: true, keys: '='}
	case base == "gemfile" || base == "rakefile":
		return ruby()
	}
	switch path.Ext(base) {
	case ".go":
		return clike([]quote{block, double, raw, char}, "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var true false nil iota any bool byte error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr")
	case ".py", ".pyi", ".star", ".bzl":
		return &language{comments: []string{"#"}, quotes: []quote{triple, triple1, double, single}, keywords: strings.Fields("and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield True False None self"), calls: true, sigils: "@"}
	case ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts":
		return clike([]quote{block, double, single, template}, "abstract any as async await bigint boolean break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in infer instanceof interface is keyof let namespace never new null number object of override private protected public readonly return satisfies set static string super switch symbol this throw true false try type typeof undefined unknown var void while with yield")
	case ".rs":
		return clike([]quote{block, double, char}, "as async await box break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize")
	case ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm", ".ino", ".cu":
		l := clike([]quote{block, double, char}, "alignas alignof auto bool break case catch char class concept const consteval constexpr continue co_await co_return co_yield decltype default delete do double else enum explicit export extern false final float for friend goto if inline int long mutable namespace new noexcept nullptr NULL operator override private protected public register restrict return short signed sizeof static static_assert struct switch template this throw true try typedef typename union unsigned using virtual void volatile wchar_t while size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t")
		l.sigils = "#"
		return l
	case ".java", ".groovy", ".gradle":
		return clike([]quote{block, triple, double, char}, "abstract assert boolean break byte case catch char class const continue def default do double else enum extends false final finally float for goto if implements import in instanceof int interface long native new null package permits private protected public record return sealed short static strictfp super switch synchronized this throw throws transient true try var void volatile while yield")
	case ".kt", ".kts", ".scala":
		return clike([]quote{block, triple, double, char}, "abstract as break by case catch class companion const constructor continue crossinline data def do else enum extends external false final finally for fun given if implicit import in infix init inline inner interface internal is lateinit lazy match new null object open operator out override package private protected public reified return sealed super suspend tailrec this throw trait true try type typealias val var vararg when where while with yield")
	case ".cs":
		return clike([]quote{block, triple, double, char}, "abstract as async await base bool break byte case catch char checked class const continue decimal default delegate do double else enum event explicit extern false finally fixed float for foreach get goto if implicit in init int interface internal is lock long namespace new null object operator out override params partial private protected public readonly record ref required return sbyte sealed set short sizeof stackalloc static string struct switch this throw true try typeof uint ulong unchecked unsafe ushort using var virtual void volatile when where while with yield")
	case ".swift", ".dart":
		return clike([]quote{block, triple, double}, "actor any as associatedtype async await break case catch class continue convenience default defer deinit do dynamic else enum extension fallthrough false fileprivate final for func guard if import in indirect init inout internal is late lazy let mutating nil null open operator optional override private protocol public repeat required rethrows return self Self some static struct subscript super switch throw throws true try typealias unowned var void weak where while")
	case ".php":
		l := clike([]quote{block, double, single}, "abstract and array as break callable case catch class clone const continue declare default do echo else elseif empty enum extends false final finally fn for foreach function global if implements include include_once instanceof insteadof interface isset list match namespace new null or private protected public readonly require require_once return static switch throw trait true try unset use var while yield")
		l.comments, l.sigils = []string{"//", "#"}, "$"
		return l
	case ".zig", ".proto", ".graphql", ".gql", ".thrift", ".sol":
		l := clike([]quote{block, double, char}, "address align allowzero and anyerror anytype bool break bytes catch comptime const continue contract defer directive else emit enum errdefer error event extend extends external false fn for fragment function if implements import input int32 int64 interface internal mapping message modifier mutation null oneof option optional or orelse package pragma private pub public query repeated require reserved return returns rpc scalar schema service stream string struct subscription switch syntax test true try type u8 u32 u64 uint32 uint64 uint256 undefined union unreachable usize var view void while")
		if ext := path.Ext(base); ext == ".graphql" || ext == ".gql" {
			l.comments = []string{"#"}
		}
		return l
	case ".tf", ".hcl", ".tfvars", ".nix":
		return &language{comments: []string{"#", "//"}, quotes: []quote{block, double}, keywords: strings.Fields("resource data variable output module provider terraform locals for in if else let with inherit rec true false null"), calls: true, keys: '=', inWords: "-"}
	case ".rb", ".rake", ".gemspec", ".ex", ".exs", ".cr":
		return ruby()
	case ".lua":
		return &language{comments: []string{"--"}, quotes: []quote{{kind: Comment, open: "--[[", close: "]]", long: true}, {kind: String, open: "[[", close: "]]", long: true}, double, single}, keywords: strings.Fields("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"), calls: true}
	case ".sh", ".bash", ".zsh", ".ksh", ".fish":
		return shell()
	case ".ps1", ".psm1":
		return &language{comments: []string{"#"}, quotes: []quote{{kind: Comment, open: "<#", close: "#>", long: true}, {kind: String, open: `"`, close: `"`}, verbatim}, keywords: strings.Fields("begin break catch class continue data do else elseif end exit filter finally for foreach from function if in param process return switch throw trap try until using while"), fold: true, sigils: "$", inWords: "-"}
	case ".yaml", ".yml":
		return &language{comments: []string{"#"}, spaced: true, quotes: []quote{double, verbatim}, keywords: strings.Fields("true false null yes no on off"), keys: ':', sigils: "&*!", inWords: "-./"}
	case ".json", ".jsonc", ".json5", ".jsonl", ".webmanifest":
		return &language{comments: []string{"//"}, quotes: []quote{block, double}, keywords: []string{"true", "false", "null"}, keys: ':'}
	case ".toml", ".ini", ".cfg", ".conf", ".properties", ".service", ".editorconfig", ".gitconfig":
		return &language{comments: []string{"#", ";"}, spaced: true, quotes: []quote{triple, triple1, double, verbatim}, keywords: []string{"true", "false"}, keys: '=', inWords: "-.", begin: beginSection}
	case ".md", ".markdown", ".mdx", ".worker":
		return &language{quotes: []quote{markup, {kind: String, open: "```", close: "```", long: true}, {kind: String, open: "`", close: "`"}}, begin: beginMarkdown}
	case ".html", ".htm", ".xhtml", ".xml", ".svg", ".vue", ".svelte", ".xsd", ".plist", ".csproj", ".tmpl", ".gohtml", ".erb":
		return &language{quotes: []quote{markup, {kind: String, open: `"`, close: `"`, long: true, inTag: true}, {kind: String, open: `'`, close: `'`, long: true, inTag: true}}, tags: true, inWords: "-:."}
	case ".css", ".scss", ".less", ".sass":
		l := &language{quotes: []quote{block, double, single}, keywords: strings.Fields("important inherit initial unset auto none"), calls: true, keys: ':', inner: true, sigils: "@$", inWords: "-"}
		if path.Ext(base) != ".css" {
			l.comments = []string{"//"}
		}
		return l
	case ".sql", ".psql", ".ddl":
		return &language{comments: []string{"--"}, quotes: []quote{block, verbatim, {kind: String, open: `"`, close: `"`}}, keywords: strings.Fields("add all alter and any as asc begin between bigint boolean by cascade case cast char check collate column commit constraint create cross current database date default delete desc distinct drop else end except execute exists false fetch first float for foreign from full function grant group having if in index inner insert int integer intersect into is join key language left like limit not null numeric offset on or order outer over partition primary procedure references replace returning returns revoke right rollback row select sequence serial set smallint table temporary text then timestamp to transaction trigger true truncate union unique update using uuid values varchar view when where with"), fold: true, calls: true}
	case ".dockerfile":
		return dockerfile()
	case ".mk", ".mak":
		return makefile()
	}
	return nil
}

// clike returns a language with the comments of C.
func clike(quotes []quote, keywords string) *language {
	return &language{comments: []string{"//"}, quotes: quotes, keywords: strings.Fields(keywords), calls: true, sigils: "@"}
}

func ruby() *language {
	return &language{comments: []string{"#"}, quotes: []quote{triple, double, single}, keywords: strings.Fields("alias and begin break case class cond def defimpl defmodule defp defprotocol defstruct do else elsif end ensure extend false fn for if import in include module next nil not or private protected public quote raise receive redo require require_relative rescue retry return self super then true try undef unless until use when while with yield"), calls: true, sigils: "@:$", inWords: "?"}
}

func shell() *language {
	return &language{comments: []string{"#"}, spaced: true, quotes: []quote{double, verbatim}, keywords: strings.Fields("alias break case cd continue declare do done echo elif else end esac eval exec exit export fi for function if in local printf read readonly return select set shift source test then trap unset until while"), keys: '=', sigils: "$", inWords: "-"}
}

func dockerfile() *language {
	return &language{comments: []string{"#"}, spaced: true, quotes: []quote{double, verbatim}, keywords: strings.Fields("add arg as cmd copy entrypoint env expose from healthcheck label maintainer onbuild run shell stopsignal user volume workdir"), fold: true, first: true, keys: '=', inner: true, sigils: "$", inWords: "-"}
}

func makefile() *language {
	return &language{comments: []string{"#"}, quotes: []quote{double, verbatim}, keywords: strings.Fields("define else endef endif export ifdef ifeq ifndef ifneq include override private undefine unexport vpath"), first: true, keys: ':', sigils: "$", inWords: "-./%"}
}

// beginSection takes a line that names a section.
func beginSection(r *reader) {
	if text := strings.TrimSpace(r.line); strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		r.take(Keyword, len(r.line))
	}
}

// beginMarkdown takes a quoted line.
func beginMarkdown(r *reader) {
	if strings.HasPrefix(strings.TrimLeft(r.line, " "), ">") {
		r.take(Comment, len(r.line))
	}
}
