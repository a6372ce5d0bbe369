//go:build !linux

package session

import (
	"context"

	"github.com/golem-forge/golem/internal/jail"
)

// A diskWatch watches nothing: commands have no overlays here.
type diskWatch struct{}

// A diskLook is nothing here, either.
type diskLook struct{}

func (*Commands) watchDisk(ctx context.Context) (context.Context, diskWatch) { return ctx, diskWatch{} }

func (diskWatch) finish(*jail.Result) {}
