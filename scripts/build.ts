/**
 * Bundles the sources into `dist/` for the npm package: `npm run build`. One file has everything that a start needs, so that
 * it is read and compiled once. Rarely used modules are separate files; undici, ws and the packages for cloud credentials
 * and shared stores stay dependencies. The bundle is minified but for the names of functions and classes, which stack traces show.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { type CodeSplittingGroup, type OutputChunk, type Plugin, rolldown } from 'rolldown'
import { buildDashboard } from '../dashboard/build.ts'
import { finder, icon, style } from '../dashboard/site/assets.ts'
import { PROVIDER_FILE } from '../src/config/catalogue/provider-files.ts'
import { launchRows, settingRows } from '../src/config/rows.ts'

const ROOT = join(import.meta.dirname, '..')

/** Not bundled: loaded from node_modules when they are needed. */
export const PACKAGES = [
  '@aws-sdk/credential-provider-node',
  'aws4fetch',
  'google-auth-library',
  'ioredis',
  'pg',
  'undici',
  'ws',
]

/** Those of them that users install who sign in to a cloud; the error for a missing one names it. */
export const OPTIONAL: ReadonlySet<string> = new Set(['@aws-sdk/credential-provider-node', 'google-auth-library'])

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
const constants = (values: Readonly<Record<string, unknown>>): string =>
  Object.entries(values)
    .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)}\n`)
    .join('')
const GENERATED: { readonly [path: string]: () => string } = {
  'src/config/catalogue/provider-files.ts': providerTable,
  'src/config/rows.ts': () => constants({ settingRows, launchRows }),
  'dashboard/site/assets.ts': () => constants({ finder, icon, style }),
}

const generatedModules: Plugin = {
  name: 'generated modules',
  load: (id) => GENERATED[relative(ROOT, id)]?.() ?? null,
}

/** Programs of threads, and the entry point that loads them. */
const THREADS = [
  'storage/thread/thread-entry.mjs',
  'storage/responses/store-thread.ts',
  'usage/bookkeeper/ledger-thread.ts',
  'usage/reading/reading-thread.ts',
  'usage/bodies/bodies-thread.ts',
  'records/store/control-thread.ts',
  'limits/counters-thread.ts',
  'news/news-thread.ts',
  'backup/backup-thread.ts',
  'config/checking/check-thread.ts',
].map((path) => join(ROOT, 'src', path))

/** Programs of threads are named by their sources, such as `new URL('./check-thread.ts', import.meta.url)`. */
const threadNames: Plugin = {
  name: 'names of threads',
  transform: (code) =>
    code.replace(
      /(new URL\(['"]\.\/[a-z]+-thread)\.ts(['"], import\.meta\.url\))/,
      (_, before, after) => `${before}.mjs${after}`,
    ),
}

/** Finds the modules of a start, and those of threads: a thread must not load a file with modules of the server. */
const moduleGroups = (): Plugin & { readonly groups: readonly CodeSplittingGroup[] } => {
  const main = new Set([join(ROOT, 'src', 'main.ts')])
  const serve = new Set([join(ROOT, 'src', 'process', 'serve.ts')])
  const threads = new Set(THREADS)
  return {
    name: 'groups of modules',
    groups: [
      // Packages that the server and threads use, each once.
      ...['zod', 'kysely'].map((name) => ({ name, test: new RegExp(`/node_modules/${name}/`) })),
      { name: 'shared', test: (id) => threads.has(id) && serve.has(id) && !main.has(id) },
      // The static imports of `serve.ts`, without those of `main.ts`, which a verb of the CLI loads too.
      { name: 'start', test: (id) => serve.has(id) && !main.has(id) },
    ],
    buildEnd() {
      for (const ids of [main, serve, threads])
        for (const id of ids) {
          const module = this.getModuleInfo(id)
          for (const imported of module?.importedIds ?? []) ids.add(imported)
          // A thread loads its program after it has enabled the compile cache.
          if (ids === threads) for (const imported of module?.dynamicallyImportedIds ?? []) ids.add(imported)
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

/** Names of functions and classes stay: stack traces show them. */
const KEPT = { function: true, class: true } as const

const OUTPUT = {
  format: 'esm',
  // File names appear in stack traces, so they have no hashes. With `.mjs` Node does not look for a package.json.
  entryFileNames: '[name].mjs',
  chunkFileNames: '[name].mjs',
  comments: { legal: true, annotation: false, jsdoc: false },
  minify: { compress: { keepNames: KEPT }, mangle: { keepNames: KEPT }, codegen: { removeWhitespace: true } },
} as const

/** Bundles the program and its threads. */
const buildProgram = async (folder: string) => {
  const { groups, ...plugin } = moduleGroups()
  const bundle = await rolldown({
    input: Object.fromEntries(
      [join(ROOT, 'src', 'main.ts'), ...THREADS].map((path) => [basename(path).replace(/\.m?[jt]s$/, ''), path]),
    ),
    cwd: ROOT,
    platform: 'node',
    preserveEntrySignatures: 'allow-extension',
    external: PACKAGES,
    plugins: [generatedModules, threadNames, plugin, asciiOnly],
  })
  const { output } = await bundle.write({
    ...OUTPUT,
    dir: folder,
    codeSplitting: { includeDependenciesRecursively: false, groups: [...groups] },
  })
  await bundle.close()
  return output
}

/** Bundles what makes the documentation of its Markdown. */
const buildDocsThread = async (folder: string) => {
  const bundle = await rolldown({
    input: { 'docs-thread': join(ROOT, 'dashboard', 'site', 'thread.ts') },
    cwd: join(ROOT, 'dashboard'),
    platform: 'node',
    plugins: [generatedModules, asciiOnly],
  })
  const { output } = await bundle.write({ ...OUTPUT, dir: folder })
  await bundle.close()
  return output
}

/** Empties the folder, writes the bundle and the dashboard, and returns the chunks of the bundle. */
export const build = async (folder: string): Promise<readonly OutputChunk[]> => {
  rmSync(folder, { recursive: true, force: true })
  const output = [...(await buildProgram(folder)), ...(await buildDocsThread(folder))]
  const chunks = output.filter((one) => one.type === 'chunk')
  writeFileSync(join(folder, 'LICENCES.txt'), noticesOf(chunks))
  await buildDashboard(join(folder, 'dashboard'))
  return chunks
}

if (import.meta.main) {
  const folder = join(ROOT, 'dist')
  for (const { fileName, code } of await build(folder))
    process.stdout.write(`${relative(ROOT, join(folder, fileName))} ${Math.round(code.length / 1024)} KiB\n`)
}
