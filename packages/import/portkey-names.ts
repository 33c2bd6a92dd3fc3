/** Names of Portkey's configurations: its providers, and the members that have no counterpart, with the reason. */

import { type Reasons, same } from './imported.ts'

/** Providers by Portkey's name. */
export const PORTKEY_PROVIDERS: Readonly<Record<string, string>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  'azure-openai': 'azure-openai',
  google: 'gemini',
  gemini: 'gemini',
  'vertex-ai': 'vertex',
  bedrock: 'bedrock',
  mistral: 'mistral',
  'mistral-ai': 'mistral',
  groq: 'groq',
  'x-ai': 'xai',
  deepseek: 'deepseek',
  openrouter: 'openrouter',
  together: 'together',
  'together-ai': 'together',
  fireworks: 'fireworks',
  'fireworks-ai': 'fireworks',
  cerebras: 'cerebras',
  cohere: 'cohere',
  perplexity: 'perplexity',
  'perplexity-ai': 'perplexity',
  moonshot: 'moonshot',
  'z-ai': 'zai',
  dashscope: 'alibaba',
  nebius: 'nebius',
  deepinfra: 'deepinfra',
  huggingface: 'huggingface',
  hyperbolic: 'hyperbolic',
  'novita-ai': 'novita',
  sambanova: 'sambanova',
  github: 'github-models',
  'workers-ai': 'workers-ai',
  ollama: 'ollama',
}

/** Words in the names of virtual keys and of providers at Portkey (`@azure-prod`), by which their kind is assumed. */
export const SLUG_WORDS: readonly (readonly [string, string])[] = [
  ['azure', 'azure-openai'],
  ['vertex', 'vertex'],
  ['bedrock', 'bedrock'],
  ['openrouter', 'openrouter'],
  ['claude', 'anthropic'],
  ...Object.entries(PORTKEY_PROVIDERS).filter(([name]) => !name.includes('-')),
]

const GUARDRAILS = 'guards are written by hand; see docs/guards.md'
const CREDENTIALS = "the machine's own credentials are used: set the variables of the cloud's SDK"
const STATUS = 'each kind of failure has its own rule'

/** Members of a configuration or target, in snake case. */
export const LEFT_OUT: Reasons = {
  ...same(GUARDRAILS, 'input_guardrails', 'output_guardrails', 'before_request_hooks', 'after_request_hooks'),
  ...same(GUARDRAILS, 'default_input_guardrails', 'default_output_guardrails', 'input_mutators', 'output_mutators'),
  ...same(CREDENTIALS, 'aws_access_key_id', 'aws_secret_access_key', 'aws_session_token', 'aws_role_arn'),
  ...same(CREDENTIALS, 'aws_auth_type', 'aws_external_id', 'vertex_service_account_json', 'azure_auth_mode'),
  ...same(CREDENTIALS, 'azure_ad_token', 'azure_entra_client_id', 'azure_entra_client_secret', 'azure_entra_tenant_id'),
  ...same('the header is not sent; use a key of that organisation or project', 'openai_organization', 'openai_project'),
  ...same('there are no stored prompts', 'prompt_id', 'prompt_version_id'),
  ...same('headers of clients are not forwarded', 'forward_headers', 'anthropic_beta'),
  ...same("this is the file of Portkey's server; set `providers` with a key for each", 'integrations', 'credentials'),
  plugins_enabled: GUARDRAILS,
  admin_token: 'set AUTH_ADMIN to a new token',
  on_status_codes: STATUS,
  metadata: 'labels are those of client keys and teams: `tags`',
  passthrough: 'requests are translated where formats differ',
  strict_open_ai_compliance: 'answers have the form of the API style that the client uses',
}

export const STRATEGY_LEFT_OUT: Reasons = {
  on_status_codes: STATUS,
  sticky: '`stickiness` of the route keeps a conversation at one provider or key',
}

export const RETRY_LEFT_OUT: Reasons = { on_status_codes: STATUS }

/** Members that are mapped, for "did you mean …?". */
export const NODE_MEMBERS = [
  ...[
    'strategy',
    'targets',
    'name',
    'provider',
    'virtual_key',
    'api_key',
    'override_params',
    'weight',
    'retry',
    'cache',
  ],
  ...['request_timeout', 'custom_host', 'resource_name', 'deployment_id', 'api_version', 'aws_region'],
  ...['vertex_project_id', 'vertex_region', 'workers_ai_account_id'],
  ...Object.keys(LEFT_OUT),
]
