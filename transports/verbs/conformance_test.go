package verbs

import (
	"os"
	"testing"

	"hopbench/transports"
	"hopbench/transports/transporttest"
)

// onRXE skips a test where scripts/rxe/rxe.sh has not made its devices; with HOPBENCH_REQUIRE_RXE that is a failure.
func onRXE(t *testing.T) {
	t.Helper()
	if os.Getenv("HOPBENCH_RXE") != "" {
		return
	}
	if os.Getenv("HOPBENCH_REQUIRE_RXE") != "" {
		t.Fatal("HOPBENCH_REQUIRE_RXE is set and there are no soft-RoCE devices: run by scripts/test-verbs.sh")
	}
	t.Skip("no soft-RoCE devices here: scripts/test-verbs.sh makes them and runs this")
}

func TestConformance(t *testing.T) {
	onRXE(t)
	transporttest.Run(t, transporttest.Config{Initiator: RoCE(), Slow: true,
		InitiatorOptions: transports.Options{Device: "rxe0"}, TargetOptions: transports.Options{Device: "rxe0"}})
}
