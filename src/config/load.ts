/** Reads the environment, `.env` and the file, and builds the configuration. */

import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve } from 'node:path'
import type { Catalogue } from '../core/config.ts'
import type { Providers } from '../core/provider.ts'
import { configure, environmentOf, type Loaded, type TextOfFile, type Texts } from './configure.ts'
import { certificatePaths } from './egress.ts'
import type { Env } from './env.ts'
import { variable } from './environment.ts'
import { MAX_FILE } from './file-limit.ts'
import { type Problem, quote } from './problem.ts'
import {
  MAX_SECRET_FILE,
  MAX_SECRET_FILES,
  type SecretFile,
  type SecretFiles,
  secretPaths,
  withFileVariables,
} from './secret-files.ts'

export type ConfigSources = {
  readonly env: Env
  /** The working folder, which contains `.env` and `headgate.yaml`. */
  readonly folder: string
  readonly providers: Providers
  readonly stored?: Texts['stored']
  /** For claims: which names mean a model. */
  readonly catalogue?: Catalogue
}

const FILE = 'headgate.yaml'

/** The current texts on disk, or the problems of reading them. */
export type ConfigTexts = {
  readonly dotenv: string | undefined
  readonly file: TextOfFile | undefined
  readonly files?: SecretFiles
  /** The contents of files with certificates. */
  readonly certificates?: SecretFiles
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
    if (size > MAX_FILE) return refuse(`${size} bytes`, `at most ${MAX_FILE}`)
    const bytes = await readFile(path)
    try {
      // Windows keeps permissions elsewhere and reports 666 for every file.
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

/** The configuration's paths. `named`: set by `HEADGATE_CONFIG`, so that the file must exist. */
export const pathsOf = (folder: string, env: Env): { dotenv: string; file: string; name: string; named: boolean } => {
  const given = variable(env, 'HEADGATE_CONFIG')
  const file = given === undefined ? join(folder, FILE) : isAbsolute(given) ? given : join(folder, given)
  const short = relative(folder, file)
  const name = short === '' || short.startsWith('..') || isAbsolute(short) ? (given ?? file) : short
  return { dotenv: join(folder, '.env'), file, name, named: given !== undefined }
}

/** A literal key, not a reference to a variable. */
const KEY_IN_DOTENV =
  /^\s*(?:export\s+)?[A-Z0-9_]*(?:API_KEY(?:_[0-9]+)?|AUTH_KEYS|AUTH_ADMIN|AUTH_PEPPER|SSO_SECRET)\s*=\s*["']?[^\s"'$]/m
const KEY_IN_FILE =
  /["']?\b(?:keys|admin|pepper|value|secret|clientSecret)\b["']?[ \t]*:[ \t]*(?:\[\s*|\n\s*-\s*)?["']?(?![\s"'$[{-])[^\s"'$]{8}/

const openFile = (name: string): string =>
  `${name} contains keys and is readable by every user of this machine. Run: chmod 600 ${name}`

export const readTexts = async ({ env, folder }: Pick<ConfigSources, 'env' | 'folder'>): Promise<ConfigTexts> => {
  const problems: Problem[] = []
  const warnings: string[] = []
  // A folder called .env is a Python environment, and not an error.
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
  let file: ConfigTexts['file']
  if (fileRead === 'absent') {
    if (paths.named)
      problems.push({
        where: 'HEADGATE_CONFIG',
        found: `${quote(paths.name)}, which does not exist`,
        allowed: `the path of a file, from ${folder}`,
      })
    else if ((await readText(join(folder, 'headgate.yml'), 'headgate.yml')) !== 'absent')
      warnings.push(`headgate.yml is ignored: rename it to ${FILE}, or set HEADGATE_CONFIG=headgate.yml`)
  } else if ('text' in fileRead) {
    const { fileReader } = await import('./file-reader.ts')
    file = { name: paths.name, text: fileRead.text, reader: fileReader }
    if (fileRead.open && KEY_IN_FILE.test(fileRead.text)) warnings.push(openFile(paths.name))
  } else problems.push(fileRead.problem)
  const joined = environmentOf(env, dotenv)
  const files = await readSecretFiles(secretPaths(joined, file?.text ?? ''), { folder })
  const named = certificatePaths(joined, certified(file, { env: joined, files }))
  const certificates = await readSecretFiles(named, { folder, largest: MAX_CERTIFICATES })
  return { dotenv, file, files, certificates, problems, warnings }
}

/** The parsed file, if it names certificates. */
const certified = (file: TextOfFile | undefined, values: Parameters<TextOfFile['reader']['readTree']>[2]): unknown => {
  if (!file || !/\b(?:ca|clientCert)\b/.test(file.text)) return undefined
  const tree = file.reader.readTree(file.text, file.name, values)
  return tree.ok ? tree.value : undefined
}

/** Bytes of a file with certificates: those of an operating system take 220 KB. */
const MAX_CERTIFICATES = 1024 * 1024

type ReadOptions = { readonly folder: string; readonly largest?: number }

const readSecretFiles = async (paths: readonly string[], { folder, largest }: ReadOptions): Promise<SecretFiles> => {
  const read = paths.map(async (path, index) => {
    const tooMany = { fault: `is one of more than ${MAX_SECRET_FILES} files` }
    return [path, index < MAX_SECRET_FILES ? await readSecretFile(resolve(folder, path), largest) : tooMany] as const
  })
  return new Map(await Promise.all(read))
}

const readSecretFile = async (path: string, largest = MAX_SECRET_FILE): Promise<SecretFile> => {
  try {
    const found = await stat(path)
    // A pipe or a device may never end.
    if (!found.isFile()) return { fault: 'is not a file' }
    if (found.size > largest) return { fault: `has ${found.size} bytes` }
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path)).replace(/\r?\n$/, '')
    return text.trim() === '' ? { fault: 'is empty' } : { text }
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return { fault: 'does not exist' }
    return { fault: error instanceof TypeError ? 'is not a text in UTF-8' : `cannot be read (${code})` }
  }
}

/** The current environment merged with `.env` and with secrets in files. What cannot be read is ignored. */
export const readEnvironment = async ({
  env,
  folder,
  providers,
}: Pick<ConfigSources, 'env' | 'folder' | 'providers'>): Promise<Env> => {
  const dotenv = await readText(join(folder, '.env'), '.env')
  const joined = environmentOf(env, typeof dotenv === 'object' && 'text' in dotenv ? dotenv.text : undefined)
  const files = await readSecretFiles(secretPaths(joined, ''), { folder })
  return withFileVariables(joined, '', files, providers).env
}

export const hashOf = ({ dotenv, file, files, certificates, problems }: ConfigTexts): string =>
  createHash('sha256')
    .update(JSON.stringify([dotenv, file, [...(files ?? [])], [...(certificates ?? [])], problems]))
    .digest('hex')

/** Builds the configuration from texts. */
export const loadTexts = (
  read: ConfigTexts,
  { env, providers, stored }: Pick<ConfigSources, 'env' | 'providers' | 'stored'>,
): Loaded => {
  const loaded = configure({ env, providers, stored, ...read })
  const warnings = [...read.warnings, ...loaded.warnings]
  if (read.problems.length === 0) return { ...loaded, warnings }
  const problems = loaded.ok ? read.problems : [...read.problems, ...loaded.problems]
  return { ok: false, problems, launch: loaded.launch, warnings }
}

/**
 * `hash`: of the texts that it was made from. `text`: that of the file; null: there is none. A function, since it may have secrets,
 * which no log may write.
 */
export type LoadedTexts = Loaded & { readonly hash: string; readonly text: () => string | null }

/** The same, refused if a claim does not hold and `prove.onFailure` is `refuse`. */
export const withClaims = async (
  loaded: Loaded,
  sources: Pick<ConfigSources, 'stored' | 'catalogue'>,
): Promise<Loaded> => {
  if (!loaded.ok || loaded.config.claims.length === 0) return loaded
  const { checkClaims } = await import('./claims.ts')
  const found = await checkClaims(loaded.config, sources)
  const warnings = [...loaded.warnings, ...found.warnings]
  if (found.problems.length === 0) return { ...loaded, warnings }
  return { ok: false, problems: found.problems, launch: loaded.launch, warnings }
}

/** The whole configuration, or all of its problems. */
export const loadConfig = async (sources: ConfigSources): Promise<LoadedTexts> => {
  const read = await readTexts(sources)
  return {
    ...(await withClaims(loadTexts(read, sources), sources)),
    hash: hashOf(read),
    text: () => read.file?.text ?? null,
  }
}
