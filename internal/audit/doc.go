// Package audit keeps the journal: who did what, and who let it happen.
//
// The journal is lines of JSON in the state directory, one record each, in one
// order for all processes. Every line ends in two hashes:
//
//	…,"prev":"<SHA-256 of the line before>","seal":"<HMAC-SHA-256 by the journal's key>"}
//
// The first chains it to the line before and can be checked by anybody, in an
// export too; the first line of all has zeros there. The second covers the
// line up to itself and can be made by nobody who lacks the key. Beside the
// lines stands the head: how many there are, the number and hash of the last,
// and a seal of its own. So a record that is changed, removed, moved, put in or
// cut from the end is found by [Verify], and so is a chain that was computed
// anew without the key.
//
// What a crash leaves is fixed by the next write, and a record of the kind
// [Mend] says so. Whole records that the head does not count yet are kept if
// they chain and are sealed, with the code [Behind], how many and which; what
// comes behind the head and is no whole line, of which nobody was told that it
// is written, goes, with the code [Torn]. What the head counts is never removed,
// even where it lacks its line end. What no crash explains does not stop the journal, since
// otherwise vandalism could stop the work, but it cannot be fixed away either:
// whatever is there stays there, a Mend record with the code [Broken] says what
// is missing, and Verify names that place from then on. Numbers continue from the
// last that is known, which is the head's where the head is sound, so that the
// number of a lost record is not given to another and the gap is seen; where
// the head is gone too they continue from the last line, and the Mend record
// itself is the place that Verify names. To hide a removal, somebody without
// the key would have to remove that Mend record, and the head that counts it;
// and the next Mend record tells of that.
//
// The journal shows that it was tampered with, it does not prevent it. Not
// found is what is done by somebody who has the key, which everything that runs
// as the user outside of the sandbox could read; who puts back an older copy of
// the lines together with the head of that time; or who removes the journal
// together with its key, as if there had never been one. Told, and not called
// wrong, is an older head alone that was put back: a power cut does the same. The
// records behind it are counted in a [Report] and by the next write, but if the
// last of them were removed, nothing says how many there had been. Where a piece
// of another copy of the same journal was put in, all of it sealed by the right
// key, the place is found where the two do not fit together, and not which of
// them is the other: see [Bad]. Whoever must rule all that out keeps the hash of
// a line elsewhere: an export does.
package audit
