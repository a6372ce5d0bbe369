// Golem-wasm is the sandbox and the gate for a Worker of a browser. The npm package
// @golem-forge/browser in web/ runs it and has the API for pages.
package main

func main() { serve() }
