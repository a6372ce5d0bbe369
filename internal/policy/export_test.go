package policy

// Unset is the consent where nobody has written anything.
const Unset = unset

// Written returns the consent that the rules for an effect's own verb give it,
// Unset where there are none.
func (c Approvals) Written(e Effect) Approval { return c.explicitRule(e).Approval }
