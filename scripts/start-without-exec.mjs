// The second half of `npm start` where the first did not take the shell's place: its set-up failed, which it has said, or
// this is Windows, whose shell has no exec.
if (process.platform !== 'win32') process.exit(1)
await import('../src/main.ts')
