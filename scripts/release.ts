/**
 * Makes a release: `npm run release -- minor` (or major, patch, or a version such as 1.0.0).
 *
 * It needs a clean tree, runs every test, moves the section "Unreleased" of CHANGELOG.md below a heading with the version,
 * sets the version in all files that state it, commits, and tags. Nothing is pushed: the tag starts the release on the forge.
 *
 *   npm run release -- minor --dry-run     everything but tests and tag, in a copy; prints what changes
 *   npm run -s release -- --notes 1.0.0    prints the section of a version
 *   npm run -s release -- --image-tags 1.0.0    prints the tags of its image
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const ROOT = join(import.meta.dirname, '..')
const CHANGELOG = 'CHANGELOG.md'
const VERSION = /\d+\.\d+\.\d+/

/** Where the version is stated: the text before it, in each file. Other places read package.json. */
const PLACES: readonly (readonly [file: string, before: readonly string[]])[] = [
  ['package.json', ['\n  "version": "']],
  ['package-lock.json', ['\n  "version": "', '\n      "name": "headgate",\n      "version": "']],
  ['deploy/helm/headgate/Chart.yaml', ['\nversion: ', '\nappVersion: ']],
  ['deploy/helm/headgate/README.md', ['registry.example.com/headgate:']],
  ['deploy/image/Dockerfile', ['org.opencontainers.image.version=']],
  [
    'test/release/chart.default.yaml',
    ['helm.sh/chart: headgate-', 'app.kubernetes.io/version: "', 'image: "headgate:'],
  ],
]

/** Files that a release changes. */
export const FILES: readonly string[] = [CHANGELOG, ...PLACES.map(([file]) => file)]

const BUMPS = ['major', 'minor', 'patch'] as const
type Bump = (typeof BUMPS)[number]
const isBump = (word: string): word is Bump => BUMPS.some((bump) => bump === word)

/** The version after this one. A word that is neither a kind of release nor a version is an error. */
export const nextVersion = (current: string, wanted: string): string => {
  if (!isBump(wanted)) {
    if (new RegExp(`^${VERSION.source}$`).test(wanted)) return wanted
    throw new Error(`found "${wanted}"; allowed: major, minor, patch, or a version such as 1.0.0`)
  }
  const [major = 0, minor = 0, patch = 0] = current.split('.').map(Number)
  if (wanted === 'major') return `${major + 1}.0.0`
  return wanted === 'minor' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`
}

const parts = (version: string): readonly number[] => version.split('.').map(Number)

const isLater = (a: string, b: string): boolean => {
  const [left, right] = [parts(a), parts(b)]
  const at = left.findIndex((part, index) => part !== right[index])
  return at >= 0 && (left[at] ?? 0) > (right[at] ?? 0)
}

/**
 * The tags of a version's image: itself, and `1.4`, `1` and `latest` unless one of the released versions that they include
 * is later. There is no tag `0`, because a minor version may break until 1.0.
 */
export const imageTags = (version: string, released: readonly string[]): readonly string[] => {
  const [major, minor] = parts(version)
  const later = released.filter((other) => isLater(other, version))
  const isNewestOf = (prefix: string): boolean => !later.some((other) => other.startsWith(prefix))
  return [
    version,
    ...(isNewestOf(`${major}.${minor}.`) ? [`${major}.${minor}`] : []),
    ...(major !== 0 && isNewestOf(`${major}.`) ? [`${major}`] : []),
    ...(isNewestOf('') ? ['latest'] : []),
  ]
}

/** The section of a heading, without the heading. */
const sectionOf = (changelog: string, isWanted: (heading: string) => boolean): string | undefined => {
  const section = changelog.split(/^## /m).find((part, at) => at > 0 && isWanted(part.slice(0, part.indexOf('\n'))))
  return section?.slice(section.indexOf('\n')).trim()
}

/** The notes of a released version. */
export const notesOf = (changelog: string, version: string): string => {
  const notes = sectionOf(changelog, (heading) => heading.startsWith(`${version} (`))
  if (notes === undefined) throw new Error(`${CHANGELOG} has no section for ${version}`)
  return notes
}

/** A version below 1.0.0 may break something with a new minor version, later versions only with a new major version. */
const mayBreak = (current: string, next: string): boolean => {
  const [a = [], b = []] = [current, next].map((version) => version.split('.').map(Number))
  return a[0] !== b[0] || (b[0] === 0 && a[1] !== b[1])
}

const movedChangelog = (
  changelog: string,
  { current, next, date }: Record<'current' | 'next' | 'date', string>,
): string => {
  const notes = sectionOf(changelog, (heading) => heading === 'Unreleased')
  if (notes === undefined) throw new Error(`${CHANGELOG} has no section "## Unreleased"`)
  if (notes === '') throw new Error(`the section "Unreleased" of ${CHANGELOG} is empty: there is nothing to release`)
  if (/^### Breaking$/m.test(notes) && !mayBreak(current, next))
    throw new Error(`the section "Unreleased" of ${CHANGELOG} has breaking changes: ${current} cannot become ${next}`)
  return changelog.replace('## Unreleased\n', `## Unreleased\n\n## ${next} (${date})\n`)
}

const withVersion = (text: string, places: readonly string[], next: string): string =>
  places.reduce((whole, before) => {
    const parts = whole.split(before)
    if (parts.length < 2) throw new Error(`"${before.trim()}" was not found`)
    return parts
      .map((part, at) => (at === 0 ? part : part.replace(new RegExp(`^${VERSION.source}`), next)))
      .join(before)
  }, text)

const gitIn =
  (root: string) =>
  (...words: readonly string[]): string =>
    execFileSync('git', words, { cwd: root, encoding: 'utf8' }).trim()

const versionIn = (root: string): string => JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version

/** The version that a release would make; an error says why it cannot be made. */
export const checkedVersion = (root: string, wanted: string): string => {
  const git = gitIn(root)
  const next = nextVersion(versionIn(root), wanted)
  const changed = git('status', '--porcelain')
  if (changed !== '') throw new Error(`commit or remove these changes first:\n${changed}`)
  if (git('tag', '--list', `v${next}`) !== '') throw new Error(`the tag v${next} exists already`)
  return next
}

/** Writes and commits a version. `date`: YYYY-MM-DD. */
export const commitVersion = (root: string, next: string, date: string): void => {
  const current = versionIn(root)
  const write = (file: string, change: (text: string) => string): void => {
    const path = join(root, file)
    try {
      writeFileSync(path, change(readFileSync(path, 'utf8')))
    } catch (error) {
      throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  write(CHANGELOG, (text) => movedChangelog(text, { current, next, date }))
  for (const [file, places] of PLACES) write(file, (text) => withVersion(text, places, next))
  const git = gitIn(root)
  git('add', '--all')
  git('commit', '--quiet', '--message', `release: ${next}`)
}

const releasedVersions = (): readonly string[] =>
  gitIn(ROOT)('tag', '--list', 'v*')
    .split('\n')
    .map((tag) => tag.slice(1))
    .filter((each) => new RegExp(`^${VERSION.source}$`).test(each))

const today = (): string => new Date().toISOString().slice(0, 10)

/** A release in a copy, without its tag. Returns what it would change. */
const rehearse = (wanted: string): string => {
  const next = checkedVersion(ROOT, wanted)
  const copy = mkdtempSync(join(tmpdir(), 'headgate-release-'))
  try {
    gitIn(ROOT)('clone', '--quiet', '--local', ROOT, copy)
    gitIn(copy)('config', 'user.name', 'dry run')
    gitIn(copy)('config', 'user.email', 'dry-run@example.com')
    commitVersion(copy, next, today())
    return `${gitIn(copy)('show', '--unified=0', '--format=%s')}\n`
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

const release = (wanted: string): string => {
  const next = checkedVersion(ROOT, wanted)
  execFileSync('npm', ['run', '--silent', 'test:all'], { cwd: ROOT, stdio: 'inherit' })
  commitVersion(ROOT, next, today())
  gitIn(ROOT)('tag', '--annotate', `v${next}`, '--message', `Headgate ${next}`)
  return `Tagged v${next}. Publish it with: git push --follow-tags\n`
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'dry-run': { type: 'boolean', default: false },
      notes: { type: 'string' },
      'image-tags': { type: 'string' },
    },
  })
  const [wanted = ''] = positionals
  try {
    if (values.notes !== undefined)
      process.stdout.write(`${notesOf(readFileSync(join(ROOT, CHANGELOG), 'utf8'), values.notes)}\n`)
    else if (values['image-tags'] !== undefined)
      process.stdout.write(`${imageTags(values['image-tags'], releasedVersions()).join('\n')}\n`)
    else process.stdout.write(values['dry-run'] ? rehearse(wanted) : release(wanted))
  } catch (error) {
    process.stderr.write(`release: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = 1
  }
}
