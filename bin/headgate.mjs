#!/usr/bin/env node
// Plain JavaScript that any Node can read: it says what is missing before anything newer is loaded.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(
    `headgate needs Node 24 or newer; this is Node ${process.versions.node}.\n` +
      '  Try:  npx -y -p node@24 -p headgate headgate\n',
  )
  process.exit(1)
}
// A clone runs its sources, a package what was built of them: Node strips no types below node_modules.
const { existsSync } = await import('node:fs')
const source = new URL('../src/main.ts', import.meta.url)
await import(existsSync(source) ? source.href : '../dist/main.mjs')
