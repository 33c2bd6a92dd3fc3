/**
 * Bundles the sources into `dist/` for the npm package: `npm run build`. One file has everything that a start needs, so that
 * it is read and compiled once. Rarely used modules are separate files; undici, ws and the packages for cloud credentials
 * stay dependencies. The bundle is not minified, so that stack traces show the names of the sources.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { type OutputChunk, type Plugin, rolldown } from 'rolldown'
import { PROVIDER_FILE } from '../src/edge/catalogue/provider-files.ts'
import { launchRows, settingRows } from '../src/edge/config/rows.ts'

const ROOT = join(import.meta.dirname, '..')

/** Not bundled: loaded from node_modules when they are needed. */
const PACKAGES = ['@aws-sdk/credential-provider-node', 'aws4fetch', 'google-auth-library', 'undici', 'ws']

/** The provider files as static imports, because a bundle has no folder to read at start. */
const providerTable = (): string => {
  const files = readdirSync(join(ROOT, 'src', 'providers'))
    .filter((file) => PROVIDER_FILE.test(file))
    .sort()
  const imports = files.map((file, index) => `import file${index} from '../../providers/${file}'`)
  const rows = files.map((file, index) => `['${file}', { default: file${index} }]`)
  return `${imports.join('\n')}\nexport const providerFiles = async () => [${rows.join(', ')}]\n`
}

/** Modules that are replaced by content computed at build time. */
const GENERATED: { readonly [path: string]: () => string } = {
  'src/edge/catalogue/provider-files.ts': providerTable,
  'src/edge/config/rows.ts': () =>
    Object.entries({ settingRows, launchRows })
      .map(([name, rows]) => `export const ${name} = ${JSON.stringify(rows)}\n`)
      .join(''),
}

const generatedModules: Plugin = {
  name: 'generated modules',
  load: (id) => GENERATED[relative(ROOT, id)]?.() ?? null,
}

/** Selects the static imports of `serve.ts` for one file, without those of `main.ts`, which enables the compile cache first. */
const startChunk = (): Plugin & { readonly has: (id: string) => boolean } => {
  const found = { main: new Set<string>(), serve: new Set<string>() }
  return {
    name: 'modules of a start',
    has: (id) => found.serve.has(id) && !found.main.has(id),
    buildEnd() {
      for (const [name, ids] of Object.entries(found)) {
        ids.add(join(ROOT, 'src', `${name}.ts`))
        for (const id of ids) for (const imported of this.getModuleInfo(id)?.importedIds ?? []) ids.add(imported)
      }
    },
  }
}

/** Escapes all characters above ASCII: with one character above Latin-1, V8 stores a source with two bytes per character. */
const asciiOnly: Plugin = {
  name: 'ASCII only',
  renderChunk: (code) =>
    // Such characters occur only in strings, templates and patterns, where the escape is equivalent.
    code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
}

/** The folder of a module's package, if it is a dependency. */
const packageOf = (id: string): string | undefined => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0]

/** The licence texts of bundled packages. */
const noticesOf = (chunks: readonly OutputChunk[]): string => {
  const folders = new Set(chunks.flatMap(({ moduleIds }) => moduleIds.flatMap((id) => packageOf(id) ?? [])))
  const notices = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))
    if (file === undefined) throw new Error(`${name} is bundled, and its package has no licence file`)
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
  })
  return `Code of these packages is part of the files beside this one.\n\n${notices.join(`\n${'-'.repeat(80)}\n\n`)}`
}

const OUTPUT = {
  format: 'esm',
  // File names appear in stack traces, so they have no hashes. With `.mjs` Node does not look for a package.json.
  entryFileNames: '[name].mjs',
  chunkFileNames: '[name].mjs',
  comments: { legal: true, annotation: false, jsdoc: false },
  minify: false,
} as const

/** Entry points of threads. */
const THREADS = ['edge/store/store-thread.mjs', 'edge/ledger/ledger-thread.mjs']

/** Bundles a thread separately, so that it shares no chunk that would load the server. */
const buildThread = async (entry: string, folder: string) => {
  const bundle = await rolldown({
    input: { [basename(entry, '.mjs')]: join(ROOT, 'src', entry) },
    cwd: ROOT,
    platform: 'node',
    plugins: [asciiOnly],
  })
  const { output } = await bundle.write({ ...OUTPUT, dir: folder, codeSplitting: false })
  await bundle.close()
  return output
}

/** Empties the folder, writes the bundle, and returns its chunks. */
export const build = async (folder: string): Promise<readonly OutputChunk[]> => {
  const start = startChunk()
  const bundle = await rolldown({
    input: { main: join(ROOT, 'src', 'main.ts') },
    cwd: ROOT,
    platform: 'node',
    preserveEntrySignatures: 'allow-extension',
    external: PACKAGES,
    plugins: [generatedModules, start, asciiOnly],
  })
  rmSync(folder, { recursive: true, force: true })
  const { output } = await bundle.write({
    ...OUTPUT,
    dir: folder,
    codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: 'start', test: start.has }] },
  })
  await bundle.close()
  const threads = await Promise.all(THREADS.map((entry) => buildThread(entry, folder)))
  const chunks = [...output, ...threads.flat()].filter((one) => one.type === 'chunk')
  writeFileSync(join(folder, 'LICENCES.txt'), noticesOf(chunks))
  return chunks
}

if (import.meta.main) {
  const folder = join(ROOT, 'dist')
  for (const { fileName, code } of await build(folder))
    process.stdout.write(`${relative(ROOT, join(folder, fileName))} ${Math.round(code.length / 1024)} KiB\n`)
}
