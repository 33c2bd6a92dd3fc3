/** Examples of teams and client keys in answers. */
import { NO_REQUIRE } from '../../../core/data-policy.ts'

export const COMMON = {
  status: 'active',
  created_at: '2026-11-23T10:00:00.000Z',
  created_by: 'auth.admin',
  rev: 1,
  managed: 'api',
}
export const UNRESTRICTED = { models: null, routes: null, providers: null, styles: null, ips: null, passThrough: null }
export const UNLIMITED = { requestsPerMinute: null, tokensPerMinute: null, concurrent: null }
export const SECRETS = {
  prefix: 'hgk_',
  last4: 'Xq3d',
  last_used_at: null,
  secrets: [{ last4: 'Xq3d', created_at: '2026-11-23T10:00:00.000Z', until: null }],
}

export const KEY_SHOWN = {
  id: 'key_kdvbwqhzmrtc',
  object: 'key',
  name: 'search-prod',
  team: 'team_kdvbwqhzmrtc',
  expires_at: null,
  access: UNRESTRICTED,
  limits: UNLIMITED,
  require: NO_REQUIRE,
  defaultRoute: null,
  cache: null,
  logBodies: false,
  requireSession: false,
  loops: null,
  tags: { app: 'search' },
  ...COMMON,
  ...SECRETS,
} as const
