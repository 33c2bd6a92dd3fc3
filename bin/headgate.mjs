#!/usr/bin/env node
// The entry point: plain JavaScript that any Node can read. It checks the version before anything newer is loaded, and
// enables the compile cache before any TypeScript is loaded: once all of it is cached, Node does not load what strips types,
// which takes 17 MB.
//
// The cache lies next to the code, so that it has the same write permissions as the code; Node's default in the temporary
// folder does not. If the folder is not writable, nothing is cached. `NODE_COMPILE_CACHE` sets another folder,
// `NODE_DISABLE_COMPILE_CACHE=1` disables it.
import { existsSync } from 'node:fs'
import * as module from 'node:module'
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
module.enableCompileCache(fileURLToPath(new URL('../.cache/compile', import.meta.url)))
await import(isClone ? source.href : '../dist/main.mjs')
