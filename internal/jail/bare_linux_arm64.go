package jail

func bareDeniedHere() []uint32 { return nil }
