/**
 * Builds the dashboard into a folder of static files: `node dashboard/build.ts FOLDER`. The gateway runs this at the first
 * request for `/dashboard/` in a clone, and `npm run build` for the package.
 */
import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type Plugin, rolldown, type TransformOptions } from 'rolldown'
import { inlineWords } from './inline-words.ts'
import { publish } from './publish.ts'
import { NAV_PAGES } from './src/page-table.ts'

const HERE = import.meta.dirname
/** The server replaces `{root}` by the way from the page to the root of the gateway. */
const ASSETS = '{root}dashboard/assets/'

/** Files by name. Names of assets contain a hash of their content; `index.html` does not. */
export type Built = ReadonlyMap<string, string>

/** The packages in the bundle, whose licences require their notices. */
const noticesOf = (modules: readonly string[]): string => {
  const folders = new Set(
    modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id.replaceAll('\\', '/'))?.[0] ?? []),
  )
  const notices = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const [file] = globSync('{LICEN[CS]E,licen[cs]e}*', { cwd: folder })
    const text = file === undefined ? '' : `\n\n${readFileSync(join(folder, file), 'utf8').trim()}`
    return `${name} ${version} (${license})${text}\n`
  })
  return `Code of these packages is part of the files beside this one.\n\n${notices.join(`\n${'-'.repeat(80)}\n\n`)}`
}

/** Removes comments and superfluous white space. No style sheet here has white space in a string that must stay. */
const smaller = (css: string): string =>
  css
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,>]) ?/g, '$1')
    .replace(/: /g, ':')
    .replaceAll(';}', '}')
    .trim()

const hashed = (name: string, content: string): string => {
  const hash = createHash('sha256').update(content).digest('base64url').slice(0, 8).replaceAll(/[-_]/g, 'x')
  return name.replace(/(?=\.\w+$)/, `-${hash}`)
}

/** Pages whose style sheet is in their own file, because nothing else uses its classes. */
export const OWN_STYLES = ['connect', 'playground', 'routes', 'teams', 'usage']

/** The other style sheets of the sources as one: the tokens first, then the frame, the parts and the pages. */
const styles = (): string => {
  const order = ['tokens.css', 'frame.css']
  const own = OWN_STYLES.map((page) => join('src', 'pages', `${page}.css`))
  const files = globSync('src/**/*.css', { cwd: HERE, exclude: own }).sort()
  const rank = (file: string) =>
    (order.indexOf(basename(file)) + 1 || order.length + 1) * 10 + Number(file.includes('pages'))
  const sorted = files.toSorted((a, b) => rank(a) - rank(b))
  return smaller(sorted.map((file) => readFileSync(join(HERE, file), 'utf8')).join('\n'))
}

/** Adds the style sheet of a page to its module. */
const ownStyles = {
  name: 'own-styles',
  transform(code: string, id: string): string | null {
    const [, page = ''] = /[\\/]pages[\\/]([a-z]+)\.tsx$/.exec(id) ?? []
    if (!OWN_STYLES.includes(page)) return null
    const css = smaller(readFileSync(join(HERE, 'src', 'pages', `${page}.css`), 'utf8'))
    return `${code}
const sheet = new CSSStyleSheet()
sheet.replaceSync(${JSON.stringify(css)})
document.adoptedStyleSheets.push(sheet)`
  },
}

/** The navigation, as it is before the scripts run. */
const links = (): string =>
  NAV_PAGES.map(
    ({ name, text }) => `<a href="{root}dashboard/${name === 'overview' ? '' : name}" data-page="${name}">${text}</a>`,
  ).join('\n        ')

/**
 * The code of the frame is one file, because small ones compress badly apart. What only some pages share stays apart, since it
 * makes the first loads of the others larger, except what is needed together: by the notice of trouble, which each visit loads, by
 * the pages of providers, and by tables with names. The theme is set by a script that is no module.
 */
const FILES = {
  includeDependenciesRecursively: false,
  groups: [
    { name: 'frame', tags: ['$initial' as const], test: /(?<!theme\.ts)$/ },
    { name: 'trouble', test: /provider-(?:row|parts)|words[/:]providers\.(?:ts|providerWords)$/ },
    { name: 'providers', test: /provider-data|incident|change-line/ },
    { name: 'names', test: /middle|owner-names|own-budgets|nearest|spent-bar/ },
  ],
}

/** Children as arguments: smaller than the automatic runtime, where they are a property and mostly a list. */
const JSX = {
  jsx: { runtime: 'classic', pragma: 'createElement', pragmaFrag: 'Fragment' },
  inject: { createElement: ['preact', 'createElement'], Fragment: ['preact', 'Fragment'] },
} satisfies TransformOptions

/** Bundles the sources. `minify: false` is for development, other words are for tests. */
export const bundle = async ({
  minify = true,
  words = inlineWords(),
}: {
  readonly minify?: boolean
  readonly words?: Plugin
} = {}): Promise<Built> => {
  const bundled = await rolldown({
    input: { main: join(HERE, 'src', 'main.tsx'), theme: join(HERE, 'src', 'theme.ts') },
    cwd: HERE,
    platform: 'browser',
    preserveEntrySignatures: false,
    tsconfig: false,
    plugins: [words, ownStyles],
    optimization: { inlineConst: { mode: 'all', pass: 3 } },
    treeshake: { manualPureFunctions: ['words'] },
    transform: { target: 'es2022', ...JSX },
  })
  const { output } = await bundled.generate({
    format: 'esm',
    minify,
    codeSplitting: FILES,
    entryFileNames: '[name]-[hash:6].js',
    // What pages share must not look like the file of one of them.
    chunkFileNames: ({ isDynamicEntry }) => (isDynamicEntry ? '[name]-[hash:6].js' : 'shared-[hash:6].js'),
    comments: { legal: false, annotation: false, jsdoc: false },
  })
  await bundled.close()
  const chunks = output.filter((one) => one.type === 'chunk')
  const files = new Map(chunks.map(({ fileName, code }) => [fileName, code]))
  const entry = (name: string) => {
    const found = chunks.find((chunk) => chunk.isEntry && chunk.name === name)
    if (!found) throw new Error(`the bundle has no entry "${name}"`)
    return found
  }
  const css = styles()
  const style = hashed('dashboard.css', css)
  files.set(style, css)
  const main = entry('main')
  const head = [
    `<script src="${ASSETS}${entry('theme').fileName}"></script>`,
    `<link rel="stylesheet" href="${ASSETS}${style}">`,
    ...main.imports.map((name) => `<link rel="modulepreload" href="${ASSETS}${name}">`),
    `<script type="module" src="${ASSETS}${main.fileName}"></script>`,
  ].join('\n    ')
  const html = readFileSync(join(HERE, 'index.html'), 'utf8')
  files.set('index.html', html.replace('<!-- assets -->', () => head).replace('<!-- pages -->', links))
  files.set('LICENCES.txt', noticesOf(chunks.flatMap(({ moduleIds }) => moduleIds)))
  return files
}

/** Writes the files. The folder appears complete, or not at all. */
export const buildDashboard = async (folder: string): Promise<Built> => {
  const files = await bundle()
  const making = `${folder}.${process.pid}`
  mkdirSync(making, { recursive: true })
  for (const [name, text] of files) writeFileSync(join(making, name), text)
  // The names of assets contain their hash.
  publish(making, folder, () => [...files.keys()].every((name) => existsSync(join(folder, name))))
  return files
}

if (import.meta.main) {
  const [, , folder] = process.argv
  if (folder === undefined) {
    process.stderr.write('usage: node dashboard/build.ts FOLDER\n')
    process.exit(1)
  }
  await buildDashboard(folder)
}
