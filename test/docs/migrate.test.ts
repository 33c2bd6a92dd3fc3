/**
 * The guides for those who come from another gateway: the first example of each is imported, and the page must show exactly
 * what the command prints. `UPDATE_DOCS=1 node scripts/test.ts docs/migrate` writes it.
 */
import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { verb } from '../e2e/support/verb.ts'

const GUIDES = globSync(join(import.meta.dirname, '..', '..', 'docs', 'migrate', '*.md'))
const EXAMPLE = /```(?:yaml litellm|json)\n([\s\S]*?)```[\s\S]*?```console\n\$ headgate (.*)\n([\s\S]*?)```/

test('migrate: there is a guide for each gateway that can be imported', async () => {
  const { stdout } = await verb(['import', '--help'])
  const names = [...stdout.matchAll(/^ {2}(\w+) \[options\] \[file\]/gm)].map(([, name]) => `${name}.md`)
  assert.deepEqual(names.sort(), GUIDES.map((file) => basename(file)).sort())
})

for (const file of GUIDES)
  test(`migrate: ${basename(file)} begins with what one loses and shows what the import prints`, async () => {
    const page = await readFile(file, 'utf8')
    assert.match(page, /^# Coming from .*\n\n## What you lose\n/)
    const [, source = '', command = '', shown] = EXAMPLE.exec(page) ?? assert.fail('no example')
    const words = command.split(' ')
    const folder = await mkdtemp(join(tmpdir(), 'headgate-migrate-'))
    try {
      await writeFile(join(folder, words[2] ?? ''), source)
      const { stdout } = await verb(words, { cwd: folder })
      if (process.env.UPDATE_DOCS === '1')
        await writeFile(
          file,
          page.replace(EXAMPLE, (all) => replaced(all, stdout)),
        )
      else assert.equal(shown, stdout)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

/** The example with another output. */
const replaced = (example: string, output: string): string =>
  example.replace(/(\n\$ headgate .*\n)[\s\S]*```$/, (_, command: string) => `${command}${output}\`\`\``)
