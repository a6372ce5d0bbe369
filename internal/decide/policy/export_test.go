package policy

// Unset is the approval of an effect without a rule.
const Unset = unset

// Written returns the approval that the rules for an effect's own verb give it, Unset if
// there are none.
func (c Approvals) Written(e Effect) Approval { return c.explicitRule(e).Approval }
