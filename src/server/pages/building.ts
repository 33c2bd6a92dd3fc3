/**
 * Builds pages from their sources, in a clone of the project: at the first request for them, in a child process of low
 * priority. Builds are kept by the hash of their sources, so that later starts use them.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join, relative } from 'node:path'

/** How pages are built. Paths are absolute. */
export type BuildPlan = {
  /** The program, whose argument is the folder that it writes. */
  readonly program: string
  /** The folder of a package that the program needs. */
  readonly needs: string
  /** The files and folders that determine the result. */
  readonly sources: readonly string[]
  /** The folder where builds are kept. */
  readonly cache: string
}

/** `missing`: the packages of the build are not installed. `failed`: with the output of the build. */
export type BuildResult =
  | { readonly done: true }
  | { readonly done: false; readonly problem: 'missing' | 'failed'; readonly output: string }

/** ms after which a build is ended. */
const TIMEOUT = 120_000
/** Characters of the output that are kept: its end. */
const MAX_OUTPUT = 4_000

const filesIn = async (path: string): Promise<readonly string[]> => {
  if ((await stat(path)).isFile()) return [path]
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}

/** The folder of the build of the present sources. */
export const builtFolder = async ({ program, sources, cache }: BuildPlan): Promise<string> => {
  const files = (await Promise.all([program, ...sources].map(filesIn))).flat().toSorted()
  const hash = createHash('sha256')
  for (const [at, content] of (await Promise.all(files.map((file) => readFile(file)))).entries())
    hash.update(`${relative(cache, files[at] ?? '')}\n${content.length}\n`).update(content)
  return join(cache, hash.digest('hex').slice(0, 16))
}

/** Builds into a folder. Does not reject. */
export const build = async ({ program, needs }: BuildPlan, folder: string): Promise<BuildResult> => {
  if (!existsSync(needs)) return { done: false, problem: 'missing', output: '' }
  try {
    return await run(program, folder)
  } catch (error) {
    // Node's permission model allows child processes only with --allow-child-process.
    return { done: false, problem: 'failed', output: String(error) }
  }
}

const run = (program: string, folder: string): Promise<BuildResult> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [program, folder], {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: TIMEOUT,
      killSignal: 'SIGKILL',
      // A build needs no keys of providers.
      env: { PATH: process.env.PATH ?? '' },
    })
    let output = ''
    const keep = (piece: Buffer) => {
      output = `${output}${piece}`.slice(-MAX_OUTPUT)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    child.once('error', (error) => keep(Buffer.from(error.message)))
    child.once('close', (code) => resolve(code === 0 ? { done: true } : { done: false, problem: 'failed', output }))
    lowerPriority(child.pid)
  })

const lowerPriority = (pid: number | undefined): void => {
  try {
    if (pid !== undefined) setPriority(pid, 10)
  } catch {
    // The process may have ended already.
  }
}
