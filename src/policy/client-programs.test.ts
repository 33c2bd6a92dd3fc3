import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { programOf } from './client-programs.ts'

describe('the kind of a client', () => {
  for (const [agent, family] of [
    ['claude-cli/2.1.0 (external, cli)', 'claude-code'],
    ['codex_exec/0.169.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.169.0)', 'codex'],
    ['codex_cli_rs/0.169.0', 'codex'],
    ['opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14', 'opencode'],
    ['ai/7.0.173 ai-sdk-provider-utils/5.0.81 node.js/24', 'ai-sdk'],
    ['ai-sdk-openai-compatible/3.0.92 ai-sdk-provider-utils/5.0.81 node.js/24', 'ai-sdk'],
    ['AsyncOpenAI/Python 2.54.0', 'openai-sdk'],
    ['Anthropic/JS 1.11.0', 'anthropic-sdk'],
    ['QwenCode/0.24.0 (linux; x64)', 'qwen-code'],
    ['litellm/1.106.2', 'litellm'],
    ['langchainjs-openai/1.0.0 ((node/v24.21.0; linux; x64))', 'langchain'],
    ['curl/8.5.0', 'curl'],
    ['Python/3.12 aiohttp/3.14.5', 'python'],
    ['', 'other'],
    ['hgk_0123456789abcdefghijABCDEFGHIJ01aaaaaa', 'other'],
  ] as const)
    test(`${agent || 'without a User-Agent'}: ${family}`, () => assert.equal(programOf(agent).family, family))
})

test('a client is the same again, also after many others and with a long User-Agent', () => {
  const long = `claude-cli/2.1.0 (${'x'.repeat(1_000)})`
  const expected = { family: 'claude-code', version: '2.1.0' }
  for (let round = 0; round < 3; round++) {
    assert.deepEqual(programOf('claude-cli/2.1.0'), expected)
    assert.deepEqual(programOf(long), expected)
    for (let other = 0; other < 300; other++) assert.equal(programOf(`tool-${other}/1.0`).family, 'other')
  }
})
