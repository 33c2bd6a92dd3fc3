/** `headgate connect` for every client, with a home folder of its own and a real gateway. */
import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse as parseYaml } from 'yaml'
import { CLIENTS } from '../../src/connect/clients.ts'
import { readJsonText } from '../../src/connect/edit-json.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const KEY = 'client-canary-0123456789'
const OTHER = 'sk-other-canary-0123456789'

/** Files as users have them: comments, other settings and other secrets. `has`: what the changed file must contain. */
const FILES: {
  readonly [client: string]: {
    readonly path: string
    readonly text: string
    readonly has: (text: string, url: string) => void
  }
} = {
  claude: {
    path: '.claude/settings.json',
    text: `{\n  "permissions": { "allow": ["Bash(ls:*)"] },\n  "env": {\n    "OTHER_TOKEN": "${OTHER}"\n  }\n}\n`,
    has: (text, url) => {
      const { env, permissions } = JSON.parse(text)
      assert.deepEqual(env, { OTHER_TOKEN: OTHER, ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: KEY })
      assert.deepEqual(permissions, { allow: ['Bash(ls:*)'] })
    },
  },
  codex: {
    path: '.codex/config.toml',
    text: `# my settings\nmodel = "gpt-5" # default\napproval_policy = "on-request"\n\n[mcp_servers.docs]\ncommand = "npx"\nenv = { API_KEY = "${OTHER}" }\n`,
    has: (text, url) => {
      assert.match(
        text,
        /^# my settings\nmodel = "auto"\napproval_policy = "on-request"\nmodel_provider = "headgate"\n\n\[mcp_servers\.docs\]\n/,
      )
      assert.ok(
        text.endsWith(
          `[model_providers.headgate]\nname = "Headgate"\nbase_url = "${url}/v1"\nwire_api = "responses"\nhttp_headers = { Authorization = "Bearer ${KEY}" }\n`,
        ),
        text,
      )
    },
  },
  opencode: {
    path: '.config/opencode/opencode.jsonc',
    text: '{\n  // keep this\n  "theme": "system",\n  "provider": {\n    "local": { "models": {} }, // mine\n  },\n}\n',
    has: (text, url) => {
      assert.match(text, /\/\/ keep this\n/)
      assert.match(text, /"local": \{ "models": \{\} \}, \/\/ mine\n/)
      const { provider, model, theme } = readJsonText(text)
      assert.deepEqual([model, theme], ['headgate/auto', 'system'])
      assert.match(JSON.stringify(provider), new RegExp(`"baseURL":"${url}/v1","apiKey":"${KEY}"`))
    },
  },
  cline: {
    path: '.cline/data/settings/providers.json',
    text: `{\n  "version": 1,\n  "lastUsedProvider": "cline",\n  "providers": {\n    "cline": { "settings": { "apiKey": "${OTHER}" } }\n  }\n}`,
    has: (text, url) => {
      const { lastUsedProvider, providers } = JSON.parse(text)
      assert.equal(lastUsedProvider, 'openai-compatible')
      assert.deepEqual(providers[lastUsedProvider].settings, {
        provider: 'openai-compatible',
        apiKey: KEY,
        baseUrl: `${url}/v1`,
        model: 'auto',
      })
      assert.equal(providers.cline.settings.apiKey, OTHER)
    },
  },
  continue: {
    path: '.continue/config.yaml',
    text: `# mine\nname: Mine\nversion: 1.0.0\nschema: v1\n\nmodels:\n  # local\n  - name: Local\n    provider: ollama\n    model: qwen\n    apiKey: ${OTHER}\n`,
    has: (text, url) => {
      assert.ok(text.startsWith(FILES.continue?.text ?? ''), text)
      assert.deepEqual(parseYaml(text).models[1], {
        name: 'Headgate',
        provider: 'openai',
        model: 'auto',
        apiBase: `${url}/v1`,
        apiKey: KEY,
      })
    },
  },
  aider: {
    path: '.aider.conf.yml',
    text: '# aider\nauto-commits: false # never\nopenai-api-base: https://old.example/v1\n',
    has: (text, url) => {
      assert.match(text, /^# aider\nauto-commits: false # never\n/)
      assert.deepEqual(parseYaml(text), {
        'auto-commits': false,
        'openai-api-base': `${url}/v1`,
        'openai-api-key': KEY,
        model: 'openai/auto',
      })
    },
  },
  qwen: {
    path: '.qwen/settings.json',
    text: '{\n\t"$version": 3,\n\t"model": {\n\t\t"name": "qwen3-coder-plus" // default\n\t}\n}\n',
    has: (text, url) => {
      assert.match(text, /"name": "auto" \/\/ default\n/)
      const { security, env, $version } = readJsonText(text)
      assert.equal($version, 3)
      assert.deepEqual(security, { auth: { selectedType: 'openai' } })
      assert.deepEqual(env, { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: KEY, OPENAI_MODEL: 'auto' })
    },
  },
  gemini: {
    path: 'gemini.env',
    text: `# mine\nGEMINI_API_KEY=${OTHER}\n`,
    has: (text, url) => {
      assert.match(text, /^# mine\n/)
      assert.ok(text.includes(`GEMINI_API_KEY=${KEY}\n`) && text.includes(`GOOGLE_GEMINI_BASE_URL=${url}\n`), text)
    },
  },
  'open-webui': {
    path: 'open-webui.env',
    text: `# mine\nWEBUI_AUTH=True\nOPENAI_API_KEY=${OTHER}`,
    has: (text, url) =>
      assert.equal(text, `# mine\nWEBUI_AUTH=True\nOPENAI_API_KEY=${KEY}\nOPENAI_API_BASE_URL=${url}/v1\n`),
  },
  zed: {
    path: '.config/zed/settings.json',
    text: '// Zed settings\n//\n{\n  "theme": { "mode": "dark" },\n  "agent": {\n    "default_model": { "provider": "zed.dev", "model": "x" },\n    "version": "2", // last\n  },\n}\n',
    has: (text, url) => {
      assert.match(text, /^\/\/ Zed settings\n/)
      assert.match(text, /"version": "2", \/\/ last\n/)
      assert.ok(!text.includes(KEY), 'the key belongs in the keychain')
      const { language_models, agent } = readJsonText(text)
      assert.match(
        JSON.stringify(language_models),
        new RegExp(`"openai_compatible":{"Headgate":{"api_url":"${url}/v1"`),
      )
      assert.deepEqual(agent, { default_model: { provider: 'Headgate', model: 'auto' }, version: '2' })
    },
  },
  n8n: {
    path: 'n8n.env',
    text: 'N8N_PORT=5678\r\n',
    has: (text, url) =>
      assert.equal(
        text,
        `N8N_PORT=5678\r\nCREDENTIALS_OVERWRITE_DATA='{"openAiApi":{"apiKey":"${KEY}","url":"${url}/v1"}}'\r\n`,
      ),
  },
}

describe('connect', { concurrency: 3 }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { AUTH_KEYS: KEY } })
  })
  after(() => gateway?.stop())

  const inHome = async (
    body: (home: string, run: (...words: string[]) => ReturnType<typeof verb>) => Promise<void>,
  ) => {
    const home = mkdtempSync(join(tmpdir(), 'headgate-home-'))
    const run = (...words: string[]) =>
      verb(['connect', ...words], { cwd: gateway.folder, env: { HOME: home, HEADGATE_API_KEY: KEY } })
    try {
      await body(home, run)
    } finally {
      rmSync(home, { recursive: true, force: true })
    }
  }
  const filesIn = (home: string) =>
    readdirSync(home, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name))
      .toSorted()

  test('every client of the table has a case here', () => {
    assert.deepEqual(CLIENTS.map(({ name }) => name).toSorted(), Object.keys(FILES).toSorted())
  })

  for (const [client, { path, text, has }] of Object.entries(FILES)) {
    const place = (home: string) => join(home, path)
    const named = (home: string) => (path.endsWith('.env') ? ['--file', place(home)] : [])

    test(`${client}: an existing file is changed, and restored byte for byte`, () =>
      inHome(async (home, run) => {
        mkdirSync(dirname(place(home)), { recursive: true })
        writeFileSync(place(home), text, { mode: 0o640 })

        const dry = await run(client, '--dry-run', ...named(home))
        assert.equal(dry.code, 0, dry.stderr)
        assert.match(dry.stdout, /^\+ /m)
        assert.equal(readFileSync(place(home), 'utf8'), text)
        assert.deepEqual(filesIn(home), [place(home)])

        const done = await run(client, ...named(home))
        assert.equal(done.code, 0, done.stdout + done.stderr)
        assert.match(done.stdout, /one request was answered by demo\/echo/)
        has(readFileSync(place(home), 'utf8'), gateway.url)
        assert.equal(statSync(place(home)).mode & 0o077, 0, 'only its owner can read the key')
        for (const { stdout, stderr } of [dry, done])
          for (const secret of [KEY, OTHER]) assert.ok(!(stdout + stderr).includes(secret), `${secret} in ${stdout}`)
        assert.equal(readFileSync(`${place(home)}.headgate-backup`, 'utf8'), text)

        const again = await run(client, '--no-request', ...named(home))
        assert.equal(again.code, 0, again.stderr)
        const undone = await run(client, '--undo', ...named(home))
        assert.equal(undone.code, 0, undone.stderr)
        assert.equal(readFileSync(place(home), 'utf8'), text)
        assert.equal(statSync(place(home)).mode & 0o777, 0o640)
        assert.deepEqual(filesIn(home), [place(home)])
        assert.equal((await run(client, '--undo', ...named(home))).code, 6)
      }))

    test(`${client}: a new file is created, and removed by --undo`, () =>
      inHome(async (home, run) => {
        const done = await run(client, '--no-request', '-m', 'demo/echo', '--json', ...named(home))
        assert.equal(done.code, 0, done.stderr)
        const { file } = done.json()
        assert.match(readFileSync(file, 'utf8'), new RegExp(gateway.url))
        assert.deepEqual(filesIn(home), [file, `${file}.headgate.json`].toSorted())
        assert.equal(statSync(file).mode & 0o777, 0o600)
        assert.equal((await run(client, '--undo', ...named(home))).code, 0)
        assert.deepEqual(filesIn(home), [])
      }))
  }

  test('a file that was changed since is not restored', () =>
    inHome(async (home, run) => {
      const file = join(home, '.claude', 'settings.json')
      mkdirSync(dirname(file))
      writeFileSync(file, '{}')
      await run('claude', '--no-request')
      writeFileSync(file, '{"mine":1}')
      const { code, stderr } = await run('claude', '--undo')
      assert.equal(code, 0, stderr)
      assert.equal(readFileSync(file, 'utf8'), '{"mine":1}')
      const toml = join(home, '.codex', 'config.toml')
      mkdirSync(dirname(toml))
      writeFileSync(toml, 'model = "gpt-5"\n')
      await run('codex', '--no-request')
      // Not TOML.
      writeFileSync(toml, 'mine = "\n')
      const refused = await run('codex', '--undo')
      assert.equal(refused.code, 6)
      assert.match(refused.stderr, /was changed since it was connected.+headgate-backup.+--force/)
      assert.equal(readFileSync(toml, 'utf8'), 'mine = "\n')
      assert.equal((await run('codex', '--undo', '--force')).code, 0)
      assert.equal(readFileSync(toml, 'utf8'), 'model = "gpt-5"\n')
      assert.deepEqual(filesIn(home), [file, toml, `${toml}.headgate-changed`].toSorted())
    }))

  test('what a client wrote into its file since stays, and the connection is taken out', () =>
    inHome(async (home, run) => {
      const file = join(home, '.qwen', 'settings.json')
      mkdirSync(dirname(file))
      writeFileSync(file, '{\n  "model": { "name": "qwen3-coder-plus" }, // mine\n}\n')
      await run('qwen', '--no-request')
      // As qwen-code writes it at its first start.
      writeFileSync(file, JSON.stringify({ ...readJsonText(readFileSync(file, 'utf8')), $version: 4 }, null, 2))
      const { code, stdout, stderr } = await run('qwen', '--undo')
      assert.equal(code, 0, stderr)
      assert.match(stdout, /was changed since, so only the values of the connection were taken out/)
      assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { model: { name: 'qwen3-coder-plus' }, $version: 4 })
      assert.deepEqual(filesIn(home), [file])
    }))

  test('a symbolic link stays one, and the file it leads to is changed', () =>
    inHome(async (home, run) => {
      const [link, file] = [join(home, '.claude', 'settings.json'), join(home, 'dotfiles.json')]
      mkdirSync(dirname(link))
      writeFileSync(file, '{}\n')
      symlinkSync(file, link)
      assert.equal((await run('claude', '--no-request')).code, 0)
      assert.match(readFileSync(file, 'utf8'), /ANTHROPIC_BASE_URL/)
      assert.equal((await run('claude', '--undo')).code, 0)
      assert.equal(readFileSync(link, 'utf8'), '{}\n')
    }))

  test('a file with an error is left as it is', () =>
    inHome(async (home, run) => {
      const file = join(home, '.qwen', 'settings.json')
      mkdirSync(dirname(file))
      writeFileSync(file, '{ "a": ')
      const { code, stderr } = await run('qwen')
      assert.equal(code, 1)
      assert.match(stderr, /settings\.json cannot be changed: line 1 is not JSON\./)
      assert.deepEqual(filesIn(home), [file])
    }))

  test('a failed request is reported after the file is written', () =>
    inHome(async (home, run) => {
      const { code, stdout, stderr } = await run('claude', '-m', 'demo/down')
      assert.equal(code, 1)
      assert.match(stdout, /^written; /m)
      assert.match(stderr, /^headgate: The file is written, but the request failed: /)
      assert.ok(existsSync(join(home, '.claude', 'settings.json')))
    }))

  test('a client with variables only has them printed, to be copied with the key', () =>
    inHome(async (home, run) => {
      const n8n = await run('n8n', '--no-request')
      const variable = `CREDENTIALS_OVERWRITE_DATA='{"openAiApi":{"apiKey":"${KEY}","url":"${gateway.url}/v1"}}'\n`
      assert.ok(n8n.stdout.includes(variable), n8n.stdout)
      const { code, stdout } = await run('open-webui', '--no-request')
      assert.equal(code, 0)
      assert.ok(stdout.includes(`OPENAI_API_BASE_URL=${gateway.url}/v1\n`), stdout)
      assert.ok(stdout.includes(`OPENAI_API_KEY=${KEY}\n`), stdout)
      assert.deepEqual(filesIn(home), [])
    }))

  test('a key is required where the gateway requires one, and an unknown client is a usage error', () =>
    inHome(async (home) => {
      const env = { HOME: home, HEADGATE_URL: gateway.url }
      const { code, stderr } = await verb(['connect', 'claude'], { env })
      assert.deepEqual([code, /--key/.test(stderr)], [5, true])
      const typo = await verb(['connect', 'clade'], { env })
      assert.deepEqual([typo.code, /Did you mean claude\?/.test(typo.stderr)], [2, true])
      assert.deepEqual(filesIn(home), [])
    }))
})
