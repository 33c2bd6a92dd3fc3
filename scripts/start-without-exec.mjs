// The second command of `npm start`. It runs if `exec` did not replace the shell: set-up failed and has printed the reason,
// or this is Windows, whose shell has no exec.
if (process.platform !== 'win32') process.exit(1)
await import('../bin/headgate.mjs')
