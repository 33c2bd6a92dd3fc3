import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

test('building: a build that may not start fails with the reason', () => {
  const plan = { program: '/build.ts', needs: '/', sources: [], cache: tmpdir() }
  const code = `import { build } from ${JSON.stringify(join(import.meta.dirname, 'building.ts'))}
    process.stdout.write(JSON.stringify(await build(${JSON.stringify(plan)}, '/folder')))`
  const args = ['--permission', '--allow-fs-read=*', '--input-type=module', '-e', code]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  const { output, ...result } = JSON.parse(stdout || assert.fail(stderr))
  assert.deepEqual(result, { done: false, problem: 'failed' })
  assert.match(output, /--allow-child-process/)
})
