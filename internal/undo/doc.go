// Package undo keeps what the file tools replace or delete in directories that they write
// directly, so that the user can undo the last calls.
//
// A call is kept as a Step, before it is done: what stands at each name, and what will
// stand there. To undo it, each name is compared with both. What is as the call left it
// gets back what was there before; what is as it was before needs nothing, because the call
// was cut off, or an undo was; anything else is a conflict, and then nothing is undone.
package undo
