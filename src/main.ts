/**
 * The entry point. It enables the compile cache, then loads the rest. Nothing imports this file.
 *
 * From source, stripping types and compiling takes half of the start. The cache lies next to the code, so that it has the
 * same write permissions as the code; Node's default in the temporary folder does not. If the folder is not writable,
 * nothing is cached. `NODE_COMPILE_CACHE` sets another folder, `NODE_DISABLE_COMPILE_CACHE=1` disables it.
 */
import { readFileSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import { workerCount } from './config/worker-count.ts'

// Node 22.18 to 23 also strip types, but would fail later on missing APIs. Older versions cannot parse this file; there
// bin/headgate.mjs prints the same message.
if (Number(process.versions.node.split('.')[0]) < 24) {
  const clone = fileURLToPath(new URL('..', import.meta.url))
  process.stderr.write(
    `headgate needs Node 24 or newer; this is Node ${process.versions.node}.\n` +
      `  Run \`npm start\` in ${clone}, which brings its own Node 24 on Linux and Windows,\n` +
      '  or install Node 24 from https://nodejs.org.\n',
  )
  process.exit(1)
}

/** The folder above the sources, and above the built files: this file is the only one that is at the same place in both. */
const home = new URL('..', import.meta.url)
const version = (): string => JSON.parse(readFileSync(new URL('package.json', home), 'utf8')).version
enableCompileCache(fileURLToPath(new URL('.cache/compile', home)))
const [, program = '', ...words] = process.argv
// Dynamic imports, since static ones would load before this file runs.
const command =
  words.length > 0 ? await (await import('./cli/launch.ts')).readCommand(words) : { kind: 'start' as const, env: {} }
switch (command.kind) {
  case 'version':
    process.stdout.write(`${version()}\n`)
    break
  case 'refuse':
    process.stderr.write(`headgate: ${command.message}\n`)
    process.exitCode = 2
    break
  case 'verb': {
    const { runCli } = await import('./cli/run.ts')
    const { env, stdout, stderr } = process
    // The reader of a pipe has ended, such as `head`.
    for (const out of [stdout, stderr])
      out.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EPIPE') throw error
        process.exit()
      })
    process.exitCode = await runCli(words, { env, folder: process.cwd(), home, version: version(), stdout, stderr })
    break
  }
  case 'start': {
    Object.assign(process.env, command.env)
    const workers = workerCount(process.env, process.cwd())
    if (workers > 1) {
      const { supervise } = await import('./process/workers/supervise.ts')
      supervise({ program, args: [], env: process.env, workers })
    } else {
      const { serve } = await import('./process/serve.ts')
      await serve(home, version())
    }
    break
  }
  default:
    throw new Error(`unknown command ${JSON.stringify(command satisfies never)}`)
}

// Flush now, not only at exit: a process that replaces this one may start while it still runs.
flushCompileCache()
