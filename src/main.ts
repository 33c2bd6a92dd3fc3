/**
 * Where a start begins: what Node compiled last time is used again, and the rest is loaded behind it. Nothing imports this.
 *
 * Of a start from source that is half the time: types are stripped, and what is left compiled, once for each version of a
 * file (to write what came of all files takes 35 ms, of the bundle 1). What is kept lies beside the code it was made of, so
 * that whoever can write the one can write the other, which is not so of Node's own place in the folder of temporary files.
 * Where it cannot be written nothing is kept, and every start is a first one. `NODE_COMPILE_CACHE` is another folder for
 * it, `NODE_DISABLE_COMPILE_CACHE=1` is none.
 */
import { readFileSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { workerCount } from './edge/workers/worker-count.ts'

// Node 22.18 to 23 strip types too, and would fail later, at the first thing they lack. Older ones cannot read this file;
// bin/headgate.mjs, which they can read, prints the same.
if (Number(process.versions.node.split('.')[0]) < 24) {
  const clone = fileURLToPath(new URL('..', import.meta.url))
  process.stderr.write(
    `headgate needs Node 24 or newer; this is Node ${process.versions.node}.\n` +
      `  Run \`npm start\` in ${clone}, which brings its own Node 24 on Linux and Windows,\n` +
      '  or install Node 24 from https://nodejs.org.\n',
  )
  process.exit(1)
}

enableCompileCache(fileURLToPath(new URL('../.cache/compile', import.meta.url)))
const version = (): string => JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version
const [, program = '', ...args] = process.argv
const workers = workerCount(process.env, process.cwd())
// No static imports: all of those are loaded before the first line of any of them runs.
const said = args.length > 0 ? (await import('./edge/command-line.ts')).answerTo(args, version()) : null
if (said) {
  process[said.to].write(said.text)
  process.exitCode = said.code
} else if (workers > 1) {
  const { supervise } = await import('./edge/workers/supervise.ts')
  supervise({ program, args, env: process.env, workers })
} else {
  const { serve } = await import('./serve.ts')
  await serve()
}

// Now, and not at the end only: who is to take over from this process begins while it still runs.
flushCompileCache()

/**
 * V8 makes objects of a literal in its old generation once most of those made there have outlived a collection, as those of
 * the first requests may. From then on each, dead as it is, keeps its whole request alive until everything is collected: 4 KB
 * a request were copied twice for nothing, an eighth of what a small one costs.
 *
 * Only now: what was compiled under other flags is no use to V8, neither what is kept here nor what comes with Node (10 ms).
 */
setFlagsFromString('--no-allocation-site-pretenuring')
