/**
 * Checks that commits which change the program have a line in CHANGELOG.md: `npm run -s notes -- BASE` reads the commits from BASE
 * to HEAD. A commit whose change no user notices says so in its body: `no-note: REASON`.
 */
import { execFileSync } from 'node:child_process'

const CHANGELOG = 'CHANGELOG.md'
const REASON = /^no-note: \S/m
const isProgram = (file: string): boolean => /^(?:src|packages|suite)\//.test(file) && !/\.test\.ts$/.test(file)

/** The commits after `base` that lack a line, each as its short hash and subject. */
export const withoutNote = (folder: string, base: string): readonly string[] => {
  const git = (...words: readonly string[]): string =>
    execFileSync('git', words, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 26 }).trim()
  const commits = git('rev-list', '--reverse', '--no-merges', `${base}..HEAD`).split('\n').filter(Boolean)
  return commits.flatMap((commit) => {
    const files = git('diff-tree', '--no-commit-id', '--name-only', '-r', commit).split('\n')
    if (!files.some(isProgram) || files.includes(CHANGELOG)) return []
    return REASON.test(git('log', '-1', '--format=%b', commit)) ? [] : [git('log', '-1', '--format=%h %s', commit)]
  })
}

if (import.meta.main) {
  const [, , base] = process.argv
  if (base === undefined) {
    process.stderr.write('usage: npm run -s notes -- BASE, a branch or commit such as origin/main\n')
    process.exit(2)
  }
  const found = withoutNote('.', base)
  for (const commit of found) process.stderr.write(`${commit}\n`)
  if (found.length > 0)
    process.stderr.write(
      `These commits change src/ and not ${CHANGELOG}. Add a line for users, or "no-note: REASON" to the body.\n`,
    )
  process.exit(found.length > 0 ? 1 : 0)
}
