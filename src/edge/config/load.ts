/** Reads the environment, `.env` and the file, and makes the configuration of them. */
import { readFile, stat } from 'node:fs/promises'
import { isAbsolute, join, relative } from 'node:path'
import type { Provider } from '../../core/provider.ts'
import { configure, environmentOf, LONGEST_FILE, type Loaded, type TextOfFile } from './configure.ts'
import { type Env, variable } from './environment.ts'
import { type Problem, quote } from './problem.ts'

export type Place = {
  readonly env: Env
  /** The working folder: `.env` and `headgate.yaml` are looked for in it. */
  readonly folder: string
  readonly providers: ReadonlyMap<string, Provider>
}

const FILE = 'headgate.yaml'

/** The texts as they are on the disk now, or what keeps them from being read. */
export type Read = {
  readonly dotenv: string | undefined
  readonly file: TextOfFile | undefined
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
}

type Contents = { readonly text: string; readonly open: boolean } | 'absent' | { readonly problem: Problem }

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown'

const readText = async (path: string, name: string): Promise<Contents> => {
  const refuse = (found: string, allowed: string) => ({ problem: { where: name, found, allowed } })
  try {
    const { size, mode } = await stat(path)
    if (size > LONGEST_FILE) return refuse(`${size} bytes`, `${LONGEST_FILE} at most`)
    const bytes = await readFile(path)
    try {
      // Windows keeps permissions elsewhere, and says 666 of everything.
      const open = process.platform !== 'win32' && (mode & 0o004) !== 0
      return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), open }
    } catch {
      return refuse('bytes that are not UTF-8', 'a text in UTF-8')
    }
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'absent'
    return refuse(code === 'EISDIR' ? 'a folder' : `a file that cannot be read (${code})`, 'a file that can be read')
  }
}

/** Where the configuration is looked for. `named`: `HEADGATE_CONFIG` says so, and then it has to be there. */
export const pathsOf = (folder: string, env: Env): { dotenv: string; file: string; name: string; named: boolean } => {
  const given = variable(env, 'HEADGATE_CONFIG')
  const file = given === undefined ? join(folder, FILE) : isAbsolute(given) ? given : join(folder, given)
  const short = relative(folder, file)
  const name = short === '' || short.startsWith('..') || isAbsolute(short) ? (given ?? file) : short
  return { dotenv: join(folder, '.env'), file, name, named: given !== undefined }
}

/** A key written out, not by a variable's name. */
const KEY_IN_DOTENV = /^\s*(?:export\s+)?[A-Z0-9_]*(?:API_KEY(?:_[0-9]+)?|AUTH_KEYS|AUTH_ADMIN)\s*=\s*["']?[^\s"'$]/m
const KEY_IN_FILE = /["']?\b(?:keys|admin|value)\b["']?\s*:\s*(?:\[\s*|-\s*|\n\s*-\s*)?["']?(?![\s"'$[{-])[^\s"'$]{8}/

const openFile = (name: string): string =>
  `${name} has keys in it, and every user of this machine may read it: chmod 600 ${name}`

export const readTexts = async ({ env, folder }: Pick<Place, 'env' | 'folder'>): Promise<Read> => {
  const problems: Problem[] = []
  const warnings: string[] = []
  // A folder called .env is a Python environment, not a mistake of ours.
  const dotenvRead = await readText(join(folder, '.env'), '.env')
  let dotenv: string | undefined
  if (dotenvRead !== 'absent') {
    if ('text' in dotenvRead) {
      dotenv = dotenvRead.text
      if (dotenvRead.open && KEY_IN_DOTENV.test(dotenv)) warnings.push(openFile('.env'))
    } else if (dotenvRead.problem.found !== 'a folder') problems.push(dotenvRead.problem)
  }
  const paths = pathsOf(folder, environmentOf(env, dotenv))
  const fileRead = await readText(paths.file, paths.name)
  let file: Read['file']
  if (fileRead === 'absent') {
    if (paths.named)
      problems.push({
        where: 'HEADGATE_CONFIG',
        found: `${quote(paths.name)}, which does not exist`,
        allowed: `the path of a file, from ${folder}`,
      })
    else if ((await readText(join(folder, 'headgate.yml'), 'headgate.yml')) !== 'absent')
      warnings.push(`headgate.yml is not read: rename it to ${FILE}, or set HEADGATE_CONFIG=headgate.yml`)
  } else if ('text' in fileRead) {
    const { readTree } = await import('./tree.ts')
    file = { name: paths.name, text: fileRead.text, readTree }
    if (fileRead.open && KEY_IN_FILE.test(fileRead.text)) warnings.push(openFile(paths.name))
  } else problems.push(fileRead.problem)
  return { dotenv, file, problems, warnings }
}

/** The environment as it is now, with what `.env` adds; what cannot be read there adds nothing. */
export const readEnvironment = async ({ env, folder }: Pick<Place, 'env' | 'folder'>): Promise<Env> => {
  const dotenv = await readText(join(folder, '.env'), '.env')
  return environmentOf(env, typeof dotenv === 'object' && 'text' in dotenv ? dotenv.text : undefined)
}

/** The configuration of texts that have been read. */
export const loadTexts = (read: Read, { env, providers }: Pick<Place, 'env' | 'providers'>): Loaded => {
  const loaded = configure({ env, dotenv: read.dotenv, file: read.file, providers })
  const warnings = [...read.warnings, ...loaded.warnings]
  if (read.problems.length === 0) return { ...loaded, warnings }
  const problems = loaded.ok ? read.problems : [...read.problems, ...loaded.problems]
  return { ok: false, problems, launch: loaded.launch, warnings }
}

/** The whole configuration, or everything that is wrong with it. */
export const loadConfig = async (place: Place): Promise<Loaded> => loadTexts(await readTexts(place), place)
