/**
 * The child process that tries mutants. For each mutant it loads the tests of the file again, with the changed code, and
 * runs them until one fails: milliseconds instead of a process start. `node:test` is replaced by a list, because the real
 * module runs each test only once.
 */
import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import fc from 'fast-check'
import type { Mutant } from './mutants.ts'

export type Trial = {
  readonly root: string
  /** The mutated file, relative to the root. */
  readonly file: string
  /** Test files in the order in which they run. */
  readonly tests: readonly string[]
  readonly mutants: readonly Mutant[]
  /** Index of the first mutant to try. */
  readonly from: number
}

/** The result for a mutant; `by`: the test that detected it. */
export type Verdict = { readonly mutant: number; readonly survived: boolean; readonly by: string; readonly ms: number }

/** The seed of all property tests, so that each run has the same result. */
const SEED = 20_261_121

type Listed = { readonly name: string; readonly run: (context: object) => unknown }
let listed: Listed[] = []

/** The part of `node:test` that unit tests use. */
const list = (name: string, ...rest: readonly unknown[]): void => {
  const run = rest.at(-1)
  const options = rest.length > 1 ? rest[0] : {}
  const skipped = typeof options === 'object' && options !== null && 'skip' in options && options.skip !== false
  if (!skipped && typeof run === 'function') listed.push({ name, run: (context) => run(context) })
}
const group = (...given: readonly unknown[]): void => {
  const run = given.at(-1)
  if (typeof run === 'function') run()
}
const SHIM = 'mutation:test'
const shim = `const { list, group } = globalThis[Symbol.for('${SHIM}')]
export const test = list, it = list, describe = group, suite = group
export default list
`

const context = { diagnostic: () => {}, signal: new AbortController().signal }

/** Paths of the files that this code imports. `code`: without types. */
const importsOf = (path: string, code: string): string[] =>
  [...code.matchAll(/(?:from|import) '(\.[^']+\.ts)'/g)].map(([, name = '']) => join(dirname(path), name))

export const tryAll = async (trial: Trial, report: (verdict: Verdict) => void): Promise<void> => {
  Reflect.set(globalThis, Symbol.for(SHIM), { list, group })
  fc.configureGlobal({ seed: SEED, endOnFailure: true })
  const changed = join(trial.root, trial.file)
  const codes = new Map<string, string>()
  const codeOf = (path: string): string => {
    const known = codes.get(path)
    if (known !== undefined) return known
    const code = stripTypeScriptTypes(readFileSync(path, 'utf8'))
    codes.set(path, code)
    return code
  }

  /** Whether the file is the mutated one or imports it. All others are loaded once. */
  const reaches = new Map<string, boolean>()
  const depends = (path: string): boolean => {
    const known = reaches.get(path)
    if (known !== undefined) return known
    reaches.set(path, path === changed)
    const found = path === changed || importsOf(path, codeOf(path)).some(depends)
    reaches.set(path, found)
    return found
  }

  let number = -1
  let code = codeOf(changed)
  registerHooks({
    resolve(specifier, from, next) {
      if (specifier === 'node:test' && from.parentURL?.startsWith('file:') && !from.parentURL.includes('node_modules'))
        return { url: SHIM, format: 'module', shortCircuit: true }
      const found = next(specifier, from)
      if (!found.url.startsWith('file:') || !found.url.endsWith('.ts') || found.url.includes('node_modules'))
        return found
      return depends(fileURLToPath(found.url)) ? { ...found, url: `${found.url}?mutant=${number}` } : found
    },
    load(url, about, next) {
      if (url === SHIM) return { format: 'module', source: shim, shortCircuit: true }
      if (!url.includes('.ts?mutant=')) return next(url, about)
      const path = fileURLToPath(url.slice(0, url.indexOf('?')))
      return { format: 'module', source: path === changed ? code : codeOf(path), shortCircuit: true }
    },
  })

  /** The first test that fails, or null. */
  const failing = async (): Promise<string | null> => {
    for (const file of trial.tests) {
      listed = []
      try {
        await import(`${pathToFileURL(join(trial.root, file)).href}?mutant=${number}`)
        for (const { name, run } of listed) {
          try {
            await run(context)
          } catch {
            return name
          }
        }
      } catch {
        return `${relative(trial.root, file)} (while loading)`
      }
    }
    return null
  }

  const baseline = await failing()
  if (baseline !== null) throw new Error(`a test fails without a mutant: ${baseline}`)
  const original = code
  let rejected = false
  process.on('unhandledRejection', () => {
    rejected = true
  })
  for (const [index, { from, to, after }] of trial.mutants.entries()) {
    if (index < trial.from) continue
    number = index
    code = original.slice(0, from) + after + original.slice(to)
    rejected = false
    const started = performance.now()
    const by = await failing()
    const detectedBy = by ?? (rejected ? 'an unhandled rejection' : null)
    report({ mutant: index, survived: detectedBy === null, by: detectedBy ?? '', ms: performance.now() - started })
  }
}
