#!/usr/bin/env node
// Plain JavaScript that any Node can read: it says what is missing before anything newer is loaded.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(
    `headgate needs Node 24 or newer; this is Node ${process.versions.node}.\n` +
      '  Try:  npx -y -p node@24 -p headgate headgate\n',
  )
  process.exit(1)
}
await import('../src/main.ts')
