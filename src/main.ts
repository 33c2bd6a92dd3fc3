/** Decides between a start and a verb of the CLI, and loads what it needs. `bin/headgate.mjs` loads this. */
import { readFileSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { workerCount } from './config/worker-count.ts'
import { letYoungGenerationGrow } from './runtime/heap-tuning.ts'

/** The folder above the sources, and above the built files: this file is the only one that is at the same place in both. */
const home = new URL('..', import.meta.url)
const version = (): string => JSON.parse(readFileSync(new URL('package.json', home), 'utf8')).version
const [, program = '', ...words] = process.argv
// Dynamic imports: a start loads no verb, and a verb no server.
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
      // Much of what loading allocates is kept, for which the young generation would grow by 8 MB.
      letYoungGenerationGrow(false)
      const { serve } = await import('./process/serve.ts')
      await serve(home, version())
      letYoungGenerationGrow(true)
    }
    break
  }
  default:
    throw new Error(`unknown command ${JSON.stringify(command satisfies never)}`)
}

// Flush now, not only at exit: a process that replaces this one may start while it still runs.
flushCompileCache()
