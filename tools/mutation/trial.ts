/**
 * The process in which mutants are tried. The tests of one file are loaded anew for each, with the changed code in the
 * place of the real, and run until one fails: milliseconds for a mutant instead of a process. `node:test` is replaced by
 * a list here, since the real one runs what it is given once and for all.
 */
import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import fc from 'fast-check'
import type { Mutant } from './mutants.ts'

export type Trial = {
  readonly root: string
  /** The file that is changed, from the root. */
  readonly file: string
  /** Test files, in the order in which they are run. */
  readonly tests: readonly string[]
  readonly mutants: readonly Mutant[]
  /** Which of them to begin with. */
  readonly from: number
}

/** What became of a mutant; `by`: the test that noticed. */
export type Verdict = { readonly mutant: number; readonly survived: boolean; readonly by: string; readonly ms: number }

/** The seed of every property, so that a mutant is killed in every run or in none. */
const SEED = 20_261_121

type Listed = { readonly name: string; readonly run: (context: object) => unknown }
let listed: Listed[] = []

/** As much of `node:test` as the tests beside the sources use. */
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

/** The files an import in code without types names, by path. */
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

  /** Whether this file, or one it imports, is the changed one: all others are loaded once. */
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

  /** The test that fails, or null. */
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
        return `${relative(trial.root, file)} as it is loaded`
      }
    }
    return null
  }

  const sound = await failing()
  if (sound !== null) throw new Error(`a test fails without any mutant: ${sound}`)
  const real = code
  let stray = false
  process.on('unhandledRejection', () => {
    stray = true
  })
  for (const [index, { from, to, after }] of trial.mutants.entries()) {
    if (index < trial.from) continue
    number = index
    code = real.slice(0, from) + after + real.slice(to)
    stray = false
    const begun = performance.now()
    const by = await failing()
    const noticed = by ?? (stray ? 'a promise nobody took care of' : null)
    report({ mutant: index, survived: noticed === null, by: noticed ?? '', ms: performance.now() - begun })
  }
}
