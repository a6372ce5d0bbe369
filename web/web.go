// Package web holds the npm package for browsers, which golem desk --demo serves. The rest of
// the directory is the package itself and its tests, which run in a browser.
package web
