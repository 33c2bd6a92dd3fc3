#!/usr/bin/env node
// Plain JavaScript that any Node can read: it checks the version before anything newer is loaded.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// A clone runs its sources, a package the bundle made of them: Node strips no types below node_modules.
const source = new URL('../src/main.ts', import.meta.url)
const isClone = existsSync(source)

if (Number(process.versions.node.split('.')[0]) < 24) {
  const clone = fileURLToPath(new URL('..', import.meta.url))
  const remedy = isClone
    ? `Run \`npm start\` in ${clone}, which brings its own Node 24 on Linux and Windows,\n  or install Node 24 from https://nodejs.org.`
    : 'Install Node 24 from https://nodejs.org.'
  process.stderr.write(`headgate needs Node 24 or newer; this is Node ${process.versions.node}.\n  ${remedy}\n`)
  process.exit(1)
}
await import(isClone ? source.href : '../dist/main.mjs')
