/**
 * The clients that can be connected, as data: their configuration files, and the values that lead them to this gateway. The
 * table has no I/O, so that other pages can be generated from it. Names of files and settings are those of Claude Code 2.1,
 * Codex CLI 0.169, opencode 1.18, Cline CLI 3.0, Continue CLI 1.5, aider 0.86, qwen-code 0.24, gemini-cli 0.61, Open WebUI 0.12 and n8n 2.41.
 */
import type { Json } from '../core/json.ts'

/** What a client is connected with. */
export type Connection = {
  /** `http://127.0.0.1:3000`, without a slash at the end. */
  readonly url: string
  readonly key: string
  readonly model: string
  /** ISO 8601. */
  readonly now: string
}

/** One value of a configuration file. `entryBy`: `value` is an entry of the list at `path`, recognised by this member. */
export type ConfigChange = { readonly path: readonly string[]; readonly value: Json; readonly entryBy?: string }

export type ConfigFormat = 'json' | 'toml' | 'yaml' | 'env'

/** The configuration file of a client. */
export type ClientFile = {
  /** The folder below the home folder. */
  readonly folder: string
  /** A variable with another folder, and the path below it. */
  readonly variable?: { readonly name: string; readonly below: string }
  /** The first that exists is changed; if there is none, the last one is created. */
  readonly names: readonly string[]
  /** The content of a new file before the changes. */
  readonly initial?: string
}

/** `paths`: by platform of Node. */
export type ManagedFile = { readonly paths: Readonly<Record<string, string>>; readonly content: Json }

export type ClientRow = {
  readonly name: string
  readonly title: string
  /** The API style of its calls. */
  readonly style: 'chat' | 'responses' | 'messages' | 'gemini'
  readonly format: ConfigFormat
  /** Null: it has no file of its own; its variables are set where it is started. */
  readonly file: ClientFile | null
  readonly changes: (connection: Connection) => readonly ConfigChange[]
  /** The same for a person who signed in, without a key. Absent: the client asks no command for its key. */
  readonly signedIn?: (connection: Connection) => readonly ConfigChange[]
  /** The system's managed settings with which it signs in at the gateway itself. Absent: it cannot. */
  readonly managed?: (url: string) => ManagedFile
  /** What the user has to do as well. */
  readonly note?: string
  /** A command that sends a first prompt; null: the client has a window for it. */
  readonly prompt: string | null
  /** What users of this client met, one sentence or two each. */
  readonly traps: readonly string[]
}

const NAME = 'headgate'
const TITLE = 'Headgate'
const base = ({ url }: Connection): string => `${url}/v1`
/** The context window for clients that need a number; the gateway's models differ. */
const CONTEXT_WINDOW = 128_000

export const CLIENTS: readonly ClientRow[] = [
  {
    name: 'claude',
    title: 'Claude Code',
    style: 'messages',
    format: 'json',
    file: { folder: '.claude', variable: { name: 'CLAUDE_CONFIG_DIR', below: '' }, names: ['settings.json'] },
    changes: ({ url, key }) => [
      { path: ['env', 'ANTHROPIC_BASE_URL'], value: url },
      { path: ['env', 'ANTHROPIC_AUTH_TOKEN'], value: key },
    ],
    signedIn: ({ url }) => [
      { path: ['env', 'ANTHROPIC_BASE_URL'], value: url },
      { path: ['apiKeyHelper'], value: `headgate token --url ${url}` },
    ],
    managed: (url) => ({
      paths: {
        linux: '/etc/claude-code/managed-settings.json',
        darwin: '/Library/Application Support/ClaudeCode/managed-settings.json',
        win32: 'C:\\Program Files\\ClaudeCode\\managed-settings.json',
      },
      content: { forceLoginMethod: 'gateway', forceLoginGatewayUrl: url },
    }),
    prompt: 'claude -p "Say hello"',
    traps: [
      'Use `ANTHROPIC_AUTH_TOKEN`. With `ANTHROPIC_API_KEY` the interactive mode shows "Not logged in" and sends nothing.',
      'The base URL has no `/v1`: Claude Code adds `/v1/messages` itself.',
      "It requests models by Anthropic's names. Without an Anthropic provider such a name is unknown, and the default route answers; a route with the name that it requests chooses the targets ([an example for Bedrock](../routing.md#routes)).",
      'After an error in the middle of a stream it sends the same request again without streaming, so one prompt can be two requests.',
      'Claude Code that is set up for Bedrock or Vertex AI can call the gateway too: [Claude Code as for a cloud](claude-cloud.md).',
      'Its requests contain paths of your machine. Think of that before you keep bodies (`bodies.sample`).',
    ],
  },
  {
    name: 'codex',
    title: 'Codex CLI',
    style: 'responses',
    format: 'toml',
    file: { folder: '.codex', variable: { name: 'CODEX_HOME', below: '' }, names: ['config.toml'] },
    changes: (connection) => [
      { path: ['model'], value: connection.model },
      { path: ['model_provider'], value: NAME },
      {
        path: ['model_providers', NAME],
        value: {
          name: TITLE,
          base_url: base(connection),
          wire_api: 'responses',
          http_headers: { Authorization: `Bearer ${connection.key}` },
        },
      },
    ],
    prompt: 'codex exec --skip-git-repo-check "Say hello"',
    traps: [
      '`wire_api` must be `responses`; Codex no longer accepts `chat`.',
      'Codex warns that it has no metadata for the model `auto`, because it does not know the names of routes. The request works; `headgate connect codex -m gpt-5` requests a model that it knows, and `model_context_window = 200000` in its file states the window of another, so that long sessions are compacted in time.',
      'On 429 and 5xx Codex shows only the status and the request ID. `headgate explain ID` has the rest.',
      'It repeats a request up to 30 times within half a minute while no provider answers. All of them count towards the limits of its key.',
      'To keep the key out of the file, replace `http_headers` by `env_key = "HEADGATE_API_KEY"` and set that variable.',
    ],
  },
  {
    name: 'opencode',
    title: 'opencode',
    style: 'chat',
    format: 'json',
    file: {
      folder: '.config/opencode',
      variable: { name: 'XDG_CONFIG_HOME', below: 'opencode' },
      names: ['opencode.jsonc', 'opencode.json'],
      initial: '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
    },
    changes: (connection) => [
      {
        path: ['provider', NAME],
        value: {
          npm: '@ai-sdk/openai-compatible',
          name: TITLE,
          options: { baseURL: base(connection), apiKey: connection.key },
          models: { [connection.model]: {} },
        },
      },
      { path: ['model'], value: `${NAME}/${connection.model}` },
    ],
    prompt: 'opencode run "Say hello"',
    traps: [
      'Each first prompt is two requests: one for the task, one for the title of the session. A limit of requests per minute counts both.',
      '`models` in the file lists the names that opencode offers. Add a line for each route that you want to choose there.',
    ],
  },
  {
    name: 'cline',
    title: 'Cline CLI',
    style: 'chat',
    format: 'json',
    file: {
      folder: '.cline/data/settings',
      variable: { name: 'CLINE_DIR', below: 'data/settings' },
      names: ['providers.json'],
    },
    changes: (connection) => [
      { path: ['version'], value: 1 },
      { path: ['lastUsedProvider'], value: 'openai-compatible' },
      {
        path: ['providers', 'openai-compatible'],
        value: {
          settings: {
            provider: 'openai-compatible',
            apiKey: connection.key,
            baseUrl: base(connection),
            model: connection.model,
          },
          updatedAt: connection.now,
          tokenSource: 'manual',
        },
      },
    ],
    prompt: 'cline "Say hello"',
    traps: [
      'The VS Code extension has settings of its own: choose *OpenAI Compatible* there, with the same base URL, key and model.',
      'Its requests have 25 tools. A model that is known not to call tools is tried last.',
    ],
  },
  {
    name: 'continue',
    title: 'Continue',
    style: 'chat',
    format: 'yaml',
    file: {
      folder: '.continue',
      variable: { name: 'CONTINUE_GLOBAL_DIR', below: '' },
      names: ['config.yaml'],
      initial: 'name: Local Config\nversion: 1.0.0\nschema: v1\n',
    },
    changes: (connection) => [
      {
        path: ['models'],
        entryBy: 'name',
        value: {
          name: TITLE,
          provider: 'openai',
          model: connection.model,
          apiBase: base(connection),
          apiKey: connection.key,
        },
      },
    ],
    prompt: 'cn -p "Say hello"',
    traps: [
      'Continue puts the status before the message of an error, such as "404". The sentence after it has the remedy.',
      'The provider must be `openai`; other values send other paths.',
    ],
  },
  {
    name: 'aider',
    title: 'aider',
    style: 'chat',
    format: 'yaml',
    file: { folder: '', names: ['.aider.conf.yml'] },
    changes: (connection) => [
      { path: ['openai-api-base'], value: base(connection) },
      { path: ['openai-api-key'], value: connection.key },
      { path: ['model'], value: `openai/${connection.model}` },
    ],
    prompt: 'aider --no-git --yes-always --message "Say hello"',
    traps: [
      'The model needs the prefix `openai/`, which aider removes: `openai/auto` requests `auto`, and `openai/anthropic/claude-haiku-4-5` requests `anthropic/claude-haiku-4-5`.',
      'aider does not know the name of a route, so it warns about unknown costs and context size. `headgate usage` has the costs.',
      'At its start it downloads a list of prices from the internet; without a network that takes a moment and is harmless.',
    ],
  },
  {
    name: 'qwen',
    title: 'qwen-code',
    style: 'chat',
    format: 'json',
    file: { folder: '.qwen', names: ['settings.json'] },
    changes: (connection) => [
      { path: ['security', 'auth', 'selectedType'], value: 'openai' },
      { path: ['env', 'OPENAI_BASE_URL'], value: base(connection) },
      { path: ['env', 'OPENAI_API_KEY'], value: connection.key },
      { path: ['env', 'OPENAI_MODEL'], value: connection.model },
      { path: ['model', 'name'], value: connection.model },
    ],
    prompt: 'qwen -p "Say hello"',
    traps: [
      'Its first request has about 50 KB of instructions and tools, which is more than the default context window of many local models.',
      'It repeats a rate-limited request up to 28 times. All of them count towards the limits of its key.',
    ],
  },
  {
    name: 'gemini',
    title: 'gemini-cli',
    style: 'gemini',
    format: 'env',
    file: null,
    changes: ({ url, key, model }) => [
      { path: ['GOOGLE_GEMINI_BASE_URL'], value: url },
      { path: ['GEMINI_API_KEY'], value: key },
      { path: ['GEMINI_MODEL'], value: model },
    ],
    note: 'gemini-cli asks how to sign in at its first start: choose "Use Gemini API key", or set `security.auth.selectedType` to `gemini-api-key` in ~/.gemini/settings.json. It reads variables from ~/.gemini/.env too.',
    prompt: 'gemini -p "Say hello"',
    traps: [
      'The base URL has no `/v1beta`: gemini-cli adds it.',
      'It requests models by names of its own too, for its web search and its compression; a route with such a name, or the default route, answers them.',
      'It rewrites some names (`gemini-3-pro-preview` becomes a newer one), so give a route a name of your own.',
      'Embeddings are served too (`:embedContent`, `:batchEmbedContents`, Vertex AI’s `:predict`). Google’s interactions, files, caches and batches are not.',
    ],
  },
  {
    name: 'open-webui',
    title: 'Open WebUI',
    style: 'chat',
    format: 'env',
    file: null,
    changes: (connection) => [
      { path: ['OPENAI_API_BASE_URL'], value: base(connection) },
      { path: ['OPENAI_API_KEY'], value: connection.key },
    ],
    note: 'Open WebUI reads these variables at its first start only. Later change the connection in its admin settings, or set ENABLE_PERSISTENT_CONFIG=false.',
    prompt: null,
    traps: [
      'Open WebUI requests the list of models when its page opens; `GET /v1/models` answers at once, also while providers are down.',
      'The model of the request is the one that is chosen on its page.',
    ],
  },
  {
    name: 'zed',
    title: 'Zed',
    style: 'chat',
    format: 'json',
    file: {
      folder: '.config/zed',
      variable: { name: 'XDG_CONFIG_HOME', below: 'zed' },
      names: ['settings.json'],
    },
    changes: (connection) => [
      {
        path: ['language_models', 'openai_compatible', TITLE],
        value: {
          api_url: base(connection),
          available_models: [
            { name: connection.model, display_name: `${TITLE} ${connection.model}`, max_tokens: CONTEXT_WINDOW },
          ],
        },
      },
      { path: ['agent', 'default_model'], value: { provider: TITLE, model: connection.model } },
    ],
    note: 'Zed keeps keys in the system keychain: enter the client key in agent: open settings, or start Zed with HEADGATE_API_KEY.',
    prompt: null,
    traps: [
      '`max_tokens` is the context window that Zed assumes; the file has 128,000. Enter that of your model.',
      'Edit predictions are sent to exactly the URL that you enter for them: write it with `/v1/completions`.',
    ],
  },
  {
    name: 'n8n',
    title: 'n8n',
    style: 'chat',
    format: 'env',
    file: null,
    changes: (connection) => [
      {
        path: ['CREDENTIALS_OVERWRITE_DATA'],
        value: JSON.stringify({ openAiApi: { apiKey: connection.key, url: base(connection) } }),
      },
    ],
    note: 'n8n fills every OpenAI credential with these values at its next start. Without the variable, enter the base URL and the key in an OpenAI credential.',
    prompt: null,
    traps: [
      'Newer OpenAI nodes call `/v1/responses`, older ones `/v1/chat/completions`; both work.',
      "Some nodes remove the part of a model's name before a slash. Choose a route, or a name without a provider.",
    ],
  },
]
