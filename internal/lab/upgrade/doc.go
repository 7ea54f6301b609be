// Command upgrade tries an upgrade of workers, and the way back, under work: `make upgrade`.
//
//	upgrade -old FOLDER [-sessions 3]
//
// FOLDER has ctl and worker of an older commit, N. The stack begins with them and with two
// workers. Then, as an operator would, the programs are replaced, and the workers are stopped one
// by one: N, N beside N+1, N+1, back to N, and N+1 again. At each change there are sessions that
// wait, run with a message behind the turn, ask for an approval, are parked, and stand in line
// for a slot; a pool of seeds, a batch, and a schedule. Each is used in each phase.
//
// Before and after each change, workflows go on as new runs. So one build writes the state of a
// workflow, and the other one reads it and writes it again: the two must be equal. A session that
// has what only N+1 knows must be left alone by N, and go on under N+1.
//
// The command exits 0 only if the model heard each message once and in order, transcripts have
// each once, every approved command ran once, the batch ended well, and no workflow task failed
// because a history did not fit the code.
package main
