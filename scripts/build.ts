/**
 * Makes `dist/` of the sources, for the package: `npm run build`. One file has all that a start needs, so that it is found,
 * read and compiled in one go; what most gateways never use are files beside it, and the packages a sign-in needs, undici
 * and ws stay packages. Names and lines are kept, so that a stack trace tells where in the sources it happened.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type OutputChunk, type Plugin, rolldown } from 'rolldown'
import { PROVIDER_FILE } from '../src/edge/catalogue/provider-files.ts'
import { launchRows, settingRows } from '../src/edge/config/rows.ts'

const ROOT = join(import.meta.dirname, '..')

/** Loaded by who needs them, from where npm has put them. */
const PACKAGES = ['@aws-sdk/credential-provider-node', 'aws4fetch', 'google-auth-library', 'undici', 'ws']

/** Nobody can read a folder inside a file: what is there now is written into it. */
const providerTable = (): string => {
  const files = readdirSync(join(ROOT, 'src', 'providers'))
    .filter((file) => PROVIDER_FILE.test(file))
    .sort()
  const imports = files.map((file, index) => `import file${index} from '../../providers/${file}'`)
  const rows = files.map((file, index) => `['${file}', { default: file${index} }]`)
  return `${imports.join('\n')}\nexport const providerFiles = async () => [${rows.join(', ')}]\n`
}

/** Modules whose content is known beforehand, and what stands in their place. */
const KNOWN: { readonly [path: string]: () => string } = {
  'src/edge/catalogue/provider-files.ts': providerTable,
  'src/edge/config/rows.ts': () =>
    Object.entries({ settingRows, launchRows })
      .map(([name, rows]) => `export const ${name} = ${JSON.stringify(rows)}\n`)
      .join(''),
}

const known: Plugin = {
  name: 'what is known beforehand',
  load: (id) => KNOWN[relative(ROOT, id)]?.() ?? null,
}

/** What `serve.ts` loads at once goes into one file, save what `main.ts` has loaded before: that looks for the cache first. */
const oneFile = (): Plugin & { readonly has: (id: string) => boolean } => {
  const found = { main: new Set<string>(), serve: new Set<string>() }
  return {
    name: 'what a start loads',
    has: (id) => found.serve.has(id) && !found.main.has(id),
    buildEnd() {
      for (const [name, ids] of Object.entries(found)) {
        ids.add(join(ROOT, 'src', `${name}.ts`))
        for (const id of ids) for (const imported of this.getModuleInfo(id)?.importedIds ?? []) ids.add(imported)
      }
    },
  }
}

/** A text with one character beyond Latin-1 takes two bytes for each of its characters in V8's memory, and twice the time. */
const inAscii: Plugin = {
  name: 'ASCII only',
  renderChunk: (code) =>
    // Strings, templates and patterns are all that has such characters, and in all of them the escape means the same.
    code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
}

/** The package a module is of, if it is not ours: its folder. */
const packageOf = (id: string): string | undefined => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0]

/** What the licences of code that is copied ask for: it goes with their text. */
const noticesOf = (chunks: readonly OutputChunk[]): string => {
  const folders = new Set(chunks.flatMap(({ moduleIds }) => moduleIds.flatMap((id) => packageOf(id) ?? [])))
  const notices = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))
    if (file === undefined) throw new Error(`${name} is copied into the bundle, and its licence is not in its package`)
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
  })
  return `Code of these packages is part of the files beside this one.\n\n${notices.join(`\n${'-'.repeat(80)}\n\n`)}`
}

const OUTPUT = {
  format: 'esm',
  // No hashes, for a file's name stands in stack traces; by this ending Node need not look for a package.json.
  entryFileNames: '[name].mjs',
  chunkFileNames: '[name].mjs',
  comments: { legal: true, annotation: false, jsdoc: false },
  minify: false,
} as const

/** The store's thread, loaded by its file's name. A bundle of its own: it shares no chunk that would load the server. */
const buildThread = async (folder: string) => {
  const bundle = await rolldown({
    input: { 'store-thread': join(ROOT, 'src', 'edge', 'store', 'store-thread.mjs') },
    cwd: ROOT,
    platform: 'node',
    plugins: [inAscii],
  })
  const { output } = await bundle.write({ ...OUTPUT, dir: folder, codeSplitting: false })
  await bundle.close()
  return output
}

/** Writes the bundle into this folder, emptied first. Answers the chunks it consists of. */
export const build = async (folder: string): Promise<readonly OutputChunk[]> => {
  const start = oneFile()
  const bundle = await rolldown({
    input: { main: join(ROOT, 'src', 'main.ts') },
    cwd: ROOT,
    platform: 'node',
    preserveEntrySignatures: 'allow-extension',
    external: PACKAGES,
    plugins: [known, start, inAscii],
  })
  rmSync(folder, { recursive: true, force: true })
  const { output } = await bundle.write({
    ...OUTPUT,
    dir: folder,
    codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: 'start', test: start.has }] },
  })
  await bundle.close()
  const chunks = [...output, ...(await buildThread(folder))].filter((one) => one.type === 'chunk')
  writeFileSync(join(folder, 'LICENCES.txt'), noticesOf(chunks))
  return chunks
}

if (import.meta.main) {
  const folder = join(ROOT, 'dist')
  for (const { fileName, code } of await build(folder))
    process.stdout.write(`${relative(ROOT, join(folder, fileName))} ${Math.round(code.length / 1024)} KiB\n`)
}
