package scan

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// A Dial connects to clamd.
type Dial func(ctx context.Context) (net.Conn, error)

// clamd asks ClamAV's daemon with its INSTREAM command: blocks with their length before
// them, an empty block at the end, and one line as the answer.
type clamd struct{ dial Dial }

func (clamd) Name() string    { return "clamd" }
func (clamd) Version() string { return "" } // its signatures change

func (s clamd) Scan(ctx context.Context, c Content) ([]Finding, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("clamd cannot be reached: %w", withoutPlace(err))
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return nil, err
		}
	}
	sent := s.send(ctx, conn, c)
	// When clamd gets too much data it answers why, and closes the connection.
	answer, err := io.ReadAll(io.LimitReader(&patient{ctx, conn}, 4096))
	what := strings.TrimRight(string(answer), "\x00\n")
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case strings.HasSuffix(what, " FOUND"):
		_, what, _ = strings.Cut(strings.TrimSuffix(what, " FOUND"), ": ")
		return []Finding{{Hold: true, What: what}}, nil
	case sent == nil && err == nil && what == "stream: OK":
		return nil, nil
	case what != "":
		return nil, fmt.Errorf("clamd says %q", what)
	}
	for _, err := range []error{sent, err} {
		if err != nil {
			return nil, fmt.Errorf("clamd gave no answer: %w", withoutPlace(err))
		}
	}
	return nil, errors.New("clamd gave no answer")
}

// withoutPlace removes the path of the socket from an error.
func withoutPlace(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (clamd) send(ctx context.Context, conn net.Conn, c Content) error {
	r, err := c.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := conn.Write([]byte("zINSTREAM\x00")); err != nil {
		return err
	}
	block := make([]byte, 4+64<<10)
	for {
		n, err := io.ReadFull(&patient{ctx, r}, block[4:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		// The last block is the empty one.
		binary.BigEndian.PutUint32(block, uint32(n))
		if _, err := conn.Write(block[:4+n]); err != nil || n == 0 {
			return err
		}
	}
}
