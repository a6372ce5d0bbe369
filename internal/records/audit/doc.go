// Package audit keeps the journal: who did what, and who approved it.
//
// The journal consists of lines of JSON in the state directory, one record each, in one
// order for all processes. Every line ends in two hashes:
//
//	…,"prev":"<SHA-256 of the line before>","seal":"<HMAC-SHA-256 by the journal's key>"}
//
// The first hash chains a record to the line before it. Anybody can check it, in an
// export too. The very first line has zeros there. The second hash, the seal, covers the
// line up to itself. Only an owner of the key can make it. The head is a file next to the
// lines. It holds the number of records, the number and hash of the last one, and its own
// seal. So [Verify] finds a record that was changed, removed, moved, inserted or cut from
// the end. It also finds a chain that was computed again without the key.
//
// The next write repairs the damage of a crash, and a record of the kind [Repair] reports
// it. It keeps complete records that the head does not count yet if they are chained and
// sealed. Their code is [Behind], with their numbers. It removes an incomplete line after
// the head, with the code [Torn]. No caller got a confirmation for that line. It never
// removes records that the head counts, even if one lacks its line end.
//
// Damage that no crash explains does not stop the journal, because then vandalism could
// stop the work. But it cannot be hidden either. All lines stay, and a Repair record with
// the code [Broken] reports the missing records. Verify reports that place from then on.
// Numbers continue after the last known one. That is the head's if the head is valid. So
// the number of a lost record is not used again, and the gap shows. If the head is gone
// too, numbers continue after the last line, and Verify reports the Repair record itself.
// To hide a removal, an attacker without the key would have to remove that Repair record
// and the head that counts it. The next Repair record would report that.
//
// The journal detects tampering, it does not prevent it. It cannot detect an attacker who
// can read the key, which every process of the user outside the sandbox can do. It cannot
// detect an older copy of the lines that was restored together with its head. It cannot
// detect that the journal was removed together with its key. If only an older head was
// restored, Verify reports it but does not call it wrong, because a power cut has the
// same effect. A [Report] and the next write count the records after that head. If the
// last of them were removed, nothing shows how many there were. A part of another copy of
// the same journal may be inserted, with correct seals. Verify then finds the place where
// the two do not fit together, but not which of them is foreign: see [Bad]. To exclude
// all that, keep the hash of a line elsewhere. An export contains it.
package audit
