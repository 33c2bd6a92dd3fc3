import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { CLI_PAGE, cliPage } from './cli-page.ts'

test('docs/cli.md has the present help texts, and every verb has an example', async () => {
  const page = await cliPage()
  assert.equal(readFileSync(CLI_PAGE, 'utf8'), page, 'run npm run cli-page')
  // The table of exit codes is no verb.
  const verbs = page
    .split(/^## /m)
    .slice(1)
    .filter((section) => !section.startsWith('Exit codes\n'))
  for (const section of verbs) assert.match(section, /\nExample: /, section.split('\n')[0])
})
