package loopback

import (
	"testing"

	"hopbench/transports/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, transporttest.Config{Initiator: New()})
}
