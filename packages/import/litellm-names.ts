/** Names of LiteLLM's configuration: its providers, and the members that have no counterpart, with the reason. */

import { type FamilyReasons, type Reasons, same } from './imported.ts'

/** How a provider of LiteLLM is configured here. */
export type LitellmProvider = {
  /** The provider of Headgate. */
  readonly kind: string
  /** The variable with its key, if the entry has none. */
  readonly key?: string
  /** Its address, if the entry has none: a URL or a reference to a variable. */
  readonly base?: string
}

const plain = (kind: string, key: string): LitellmProvider => ({ kind, key })
const server = (kind: string, base: string): LitellmProvider => ({ kind, base })
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: references to variables in headgate.yaml
const AZURE: LitellmProvider = { kind: 'azure-openai', key: 'AZURE_API_KEY', base: '${AZURE_API_BASE}' }

/** By the prefix of `litellm_params.model`. */
export const LITELLM_PROVIDERS: Readonly<Record<string, LitellmProvider>> = {
  openai: plain('openai', 'OPENAI_API_KEY'),
  'text-completion-openai': plain('openai', 'OPENAI_API_KEY'),
  azure: AZURE,
  azure_ai: { kind: 'openai-compatible', key: 'AZURE_AI_API_KEY', base: '${AZURE_AI_API_BASE}' },
  anthropic: plain('anthropic', 'ANTHROPIC_API_KEY'),
  gemini: plain('gemini', 'GEMINI_API_KEY'),
  vertex_ai: { kind: 'vertex' },
  vertex_ai_beta: { kind: 'vertex' },
  bedrock: { kind: 'bedrock' },
  bedrock_converse: { kind: 'bedrock' },
  mistral: plain('mistral', 'MISTRAL_API_KEY'),
  groq: plain('groq', 'GROQ_API_KEY'),
  xai: plain('xai', 'XAI_API_KEY'),
  deepseek: plain('deepseek', 'DEEPSEEK_API_KEY'),
  openrouter: plain('openrouter', 'OPENROUTER_API_KEY'),
  together_ai: plain('together', 'TOGETHERAI_API_KEY'),
  fireworks_ai: plain('fireworks', 'FIREWORKS_API_KEY'),
  cerebras: plain('cerebras', 'CEREBRAS_API_KEY'),
  cohere: plain('cohere', 'COHERE_API_KEY'),
  cohere_chat: plain('cohere', 'COHERE_API_KEY'),
  perplexity: plain('perplexity', 'PERPLEXITYAI_API_KEY'),
  moonshot: plain('moonshot', 'MOONSHOT_API_KEY'),
  zai: plain('zai', 'ZAI_API_KEY'),
  dashscope: plain('alibaba', 'DASHSCOPE_API_KEY'),
  nebius: plain('nebius', 'NEBIUS_API_KEY'),
  deepinfra: plain('deepinfra', 'DEEPINFRA_API_KEY'),
  nvidia_nim: plain('nvidia', 'NVIDIA_NIM_API_KEY'),
  huggingface: plain('huggingface', 'HF_TOKEN'),
  hyperbolic: plain('hyperbolic', 'HYPERBOLIC_API_KEY'),
  novita: plain('novita', 'NOVITA_API_KEY'),
  sambanova: plain('sambanova', 'SAMBANOVA_API_KEY'),
  baseten: plain('baseten', 'BASETEN_API_KEY'),
  scaleway: plain('scaleway', 'SCW_SECRET_KEY'),
  minimax: plain('minimax', 'MINIMAX_API_KEY'),
  github: plain('github-models', 'GITHUB_API_KEY'),
  vercel_ai_gateway: plain('vercel', 'VERCEL_AI_GATEWAY_API_KEY'),
  ollama: server('ollama', 'http://localhost:11434'),
  ollama_chat: server('ollama', 'http://localhost:11434'),
  vllm: server('vllm', '${HOSTED_VLLM_API_BASE}'),
  hosted_vllm: server('vllm', '${HOSTED_VLLM_API_BASE}'),
  lm_studio: server('lmstudio', '${LM_STUDIO_API_BASE}'),
  llamafile: server('llamacpp', '${LLAMAFILE_API_BASE}'),
  openai_like: server('openai-compatible', '${OPENAI_LIKE_API_BASE}'),
  custom_openai: { kind: 'openai-compatible' },
  litellm_proxy: { kind: 'openai-compatible', key: 'LITELLM_PROXY_API_KEY', base: '${LITELLM_PROXY_API_BASE}' },
}
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: end of the table

/** The provider of a model without a prefix. */
export const BARE_MODELS: readonly (readonly [RegExp, string])[] = [
  [/^(?:gpt-|chatgpt-|o[1-9](?:-|$)|text-embedding-|ft:gpt-)/, 'openai'],
  [/^claude-/, 'anthropic'],
  [/^command-/, 'cohere'],
]

/** What an entry can be for, beside chat: the values of `model_info.mode` that are served. */
export const SERVED_MODES: readonly string[] = ['chat', 'completion', 'embedding', 'responses']

const PARAMETERS = 'parameters of requests are set by the client'
const USERS = 'users and teams are created with `headgate teams` and `headgate keys`'
const SIGN_IN = 'people sign in by `sso` (docs/sign-in.md), signed tokens by `auth.jwt` (docs/jwt.md)'
/** Why other endpoints are left out. */
export const SERVED = 'only text generation and embeddings are served'
const CREDENTIALS = "the machine's own credentials are used: set the variables of the cloud's SDK"

/** Reasons by section and member. Members that are neither here nor mapped have the reason of their family, below. */
export const LEFT_OUT: Readonly<Record<string, Reasons>> = {
  litellm_params: {
    ...same(PARAMETERS, 'thinking', 'extra_body', 'tools', 'tool_choice', 'response_format'),
    ...same('not imported: write `headers` at the target, without credentials', 'extra_headers', 'headers'),
    ...same('there is no cooldown per target; `circuit` applies to all', 'cooldown_time'),
    ...same('limits are those of client keys and teams', 'max_parallel_requests', 'rpm', 'tpm'),
    ...same('a budget can select a provider: `budgets` with `appliesTo.providers`', 'max_budget', 'budget_duration'),
    ...same(CREDENTIALS, 'aws_access_key_id', 'aws_secret_access_key', 'aws_session_token', 'aws_profile_name'),
    ...same(CREDENTIALS, 'aws_role_name', 'aws_session_name', 'aws_web_identity_token', 'vertex_credentials'),
    ...same(CREDENTIALS, 'azure_ad_token', 'tenant_id', 'client_id', 'client_secret', 'azure_username'),
    model_id: 'the model is what is sent: write bedrock/ARN',
    organization: 'the header OpenAI-Organization is not sent; use a key of that organisation',
    mock_response: 'there are no mock responses; the provider `demo` needs no key',
    drop_params: 'members that a provider cannot take are always dropped and named in x-headgate-dropped',
    use_in_pass_through: 'write `passThrough` at the provider: docs/pass-through.md',
    merge_reasoning_content_in_choices: 'reasoning is returned in its own member',
  },
  model_info: {
    id: 'targets are identified by provider and model',
    base_model: 'the price follows from the deployment; set it in `prices`',
    ...same('capabilities and limits come from the catalogue', 'max_tokens', 'max_input_tokens', 'max_output_tokens'),
    ...same('capabilities and limits come from the catalogue', 'supports_function_calling', 'supports_vision'),
    access_groups: 'models are allowed by name: `access.models` of a key or team',
    version: 'a description, without effect',
    description: 'a description, without effect',
    metadata: 'a description, without effect',
    created_by: 'a description, without effect',
    health_check_model: 'there are no health checks by requests',
    disable_background_health_check: 'there are no health checks by requests',
  },
  router_settings: {
    ...same(
      'gateways share limits with `REDIS_URL`, and nothing else: docs/deploy/stores.md',
      'redis_host',
      'redis_port',
    ),
    ...same(
      'gateways share limits with `REDIS_URL`, and nothing else: docs/deploy/stores.md',
      'redis_password',
      'redis_url',
    ),
    ...same('each kind of failure has its own rule', 'retry_policy', 'allowed_fails_policy'),
    ...same('each kind of failure has its own rule', 'model_group_retry_policy'),
    content_policy_fallbacks: 'a refusal by a content policy is an answer, not a failure',
    retry_after: 'waits follow `Retry-After` of the provider and grow with each attempt',
    routing_strategy_args: 'the strategies have no arguments',
    disable_cooldowns: 'circuits cannot be switched off; `circuit` sets when they open',
    cache_responses: 'the cache is set by `cache` of a route',
    optional_pre_call_checks: 'such checks are always made',
    provider_budget_config: 'a budget can select a provider: `budgets` with `appliesTo.providers`',
    default_litellm_params: PARAMETERS,
    set_verbose: 'set LOG_LEVEL=debug in the environment',
    debug_level: 'set LOG_LEVEL=debug in the environment',
  },
  litellm_settings: {
    ...same('there are no callbacks; see /metrics, `headgate logs` and the admin API', 'callbacks', 'success_callback'),
    ...same('there are no callbacks; see /metrics, `headgate logs` and the admin API', 'failure_callback'),
    ...same('there are no callbacks; see /metrics, `headgate logs` and the admin API', 'service_callback'),
    content_policy_fallbacks: 'a refusal by a content policy is an answer, not a failure',
    ...same('set LOG_LEVEL=debug in the environment', 'set_verbose'),
    ...same('set LOG_FORMAT=json in the environment', 'json_logs'),
    guardrails: 'guards are written by hand; see docs/guards.md',
    modify_params: 'messages are translated, not repaired',
    ssl_verify: 'certificates are always checked; NODE_EXTRA_CA_CERTS adds an authority',
    custom_provider_map: 'there are no Python hooks',
    ...same(USERS, 'default_team_settings'),
    ...same(USERS, 'default_internal_user_params'),
    ...same(USERS, 'max_internal_user_budget'),
    ...same(USERS, 'upperbound_key_generate_params'),
    redact_user_api_key_info: 'logs contain IDs of keys only',
    langfuse_default_tags: 'there are no callbacks; see /metrics, `headgate logs` and the admin API',
    enable_json_schema_validation: 'answers are not validated',
    mcp_aliases: 'there is no gateway for MCP servers',
  },
  general_settings: {
    ...same('the databases are files in the data folder, or Postgres with `DATABASE_URL`', 'database_url'),
    ...same(
      'the databases are files in the data folder, or Postgres with `DATABASE_URL`',
      'database_connection_pool_limit',
    ),
    ...same(
      'the databases are files in the data folder, or Postgres with `DATABASE_URL`',
      'database_connection_timeout',
    ),
    ...same(
      'the databases are files in the data folder, or Postgres with `DATABASE_URL`',
      'allow_requests_on_db_unavailable',
    ),
    store_model_in_db: 'models are in the file',
    ...same('secrets come from variables and files', 'key_management_system', 'key_management_settings'),
    ...same('there are no Python hooks', 'custom_auth', 'custom_key_generate', 'custom_sso'),
    ...same(SIGN_IN, 'enable_oauth2_auth', 'enable_oauth2_proxy_auth'),
    ...same('there are no health checks by requests', 'background_health_checks', 'health_check_interval'),
    ...same('there are no health checks by requests', 'health_check_details', 'use_shared_health_check'),
    alerting_threshold: 'there is no alert for slow requests',
    alert_types: 'alerts are chosen with `alerts.rules`',
    alerting_args: 'alerts are chosen with `alerts.rules`',
    alert_to_webhook_url: 'all alerts use one webhook',
    pass_through_endpoints: 'a provider passes its own API with `passThrough`: docs/pass-through.md',
    ...same('usage is recorded unless `usage.ledger` is false', 'disable_spend_logs', 'disable_spend_updates'),
    ...same('usage is recorded at once; see `ledger.interval`', 'proxy_batch_write_at', 'use_redis_transaction_buffer'),
    maximum_spend_logs_retention_period: 'set `usage.keepDays`',
    store_prompts_in_spend_logs: 'set `bodies.sample` to store texts, redacted',
    ...same(
      'no such access rule; see `access` of keys and teams',
      'allowed_routes',
      'admin_only_routes',
      'public_routes',
    ),
    ...same('no such access rule; see `access` of keys and teams', 'allowed_ips', 'enforce_user_param'),
    ui_access_mode: 'the dashboard needs the admin token; `dashboard.enabled` switches it off',
    max_response_size_mb: 'the size of answers is limited by `limit.bufferedMegabytes`',
    forward_client_headers_to_llm_api: 'headers of clients are not forwarded',
    disable_master_key_return: 'the admin token is never returned',
    salt_key: 'keys are stored as digests; see `auth.pepper`',
  },
  '': {
    mcp_servers: 'there is no gateway for MCP servers',
    vector_store_registry: 'there are no vector stores',
    include: 'included files are not read; import each of them',
    callback_settings: 'there are no callbacks; see /metrics, `headgate logs` and the admin API',
    finetune_settings: 'there are no fine-tuning endpoints',
    files_settings: 'there are no file endpoints',
    prompts: 'there are no stored prompts',
    search_tools: 'there are no search tools',
    assistant_settings: 'there are no assistants',
  },
}

/** Reasons for the many other members of LiteLLM, which have a part of their name in common. */
export const FAMILIES: FamilyReasons = [
  [/health_check/, 'there are no health checks by requests'],
  [/(?:^|_)mcp(?:_|$)/, 'there is no gateway for MCP servers'],
  [
    /guardrail|content_safety|prompt_injection|^polic(?:y|ies)(?:_|$)/,
    'guards are written by hand; see docs/guards.md',
  ],
  [
    /callback|^(?:langfuse|langsmith|datadog|custom_prometheus|prometheus|otel)(?:_|$)/,
    'there are no callbacks; see /metrics, `headgate logs` and the admin API',
  ],
  [
    /redis|^cach(?:e|ing)_(?:kwargs|params|groups)$/,
    'gateways share limits with `REDIS_URL`, and nothing else: docs/deploy/stores.md',
  ],
  [/oauth|jwt|sso(?:_|$)|rbac|^role_permissions$|^allow_user_auth$/, SIGN_IN],
  [/^supports_|^supported_endpoints$/, 'capabilities and limits come from the catalogue'],
  [
    /_cost_per_|^cost_(?:margin|discount)|^web_search_billing/,
    'prices are those of input, output and cached input tokens',
  ],
  [/priorit|^polling_interval$/, 'requests have no priorities'],
  [/affinity/, '`stickiness` of a route keeps a conversation at one provider or key'],
  [/^tag_|(?:^|_)tags?(?:_|$)/, 'tags select targets by `when`, and budgets by `appliesTo.tags`'],
  [/^forward_|headers?(?:_|$)|^user_header/, 'headers of clients are not forwarded'],
  [/safety_settings$|^instructions$|^web_search_options$|^additional_drop_params$/, PARAMETERS],
  [
    /^(?:aws|azure|vertex)_\w*(?:key|token|password|scope|id|credentials)$|^use_(?:azure_key_vault|google_kms)$/,
    CREDENTIALS,
  ],
  [/database|prisma|^supported_db/, 'the databases are files in the data folder, or Postgres with `DATABASE_URL`'],
  [/budget|spend|cost_tracking/, 'budgets are those of `budgets`, and usage is always recorded'],
  [/^default_team|internal_user|^key_generation|^key_alias|^service_account|^enforced_params$/, USERS],
  [/^(?:global_)?(?:prompt|bitbucket|gitlab)_/, 'there are no stored prompts'],
  [/assistants|vector_store|search_tools|^image_generation_model$|^moderation_model$|batch_endpoints/, SERVED],
  [/^ui_|_ui_|^UI_/, 'the dashboard needs the admin token; `dashboard.enabled` switches it off'],
]
