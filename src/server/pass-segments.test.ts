/** An instance must not have the name of a path of the gateway. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RESERVED_SEGMENTS } from '../policy/pass/reserved.ts'
import { ADMIN_BASE } from './admin-request.ts'
import { DASHBOARD_BASE, DOCS_BASE } from './page-request.ts'
import { CLAUDE_ROUTES, pathsOf, ROUTES, type RouteRow } from './routes.ts'
import { SIGN_IN_PATHS } from './sign-in-paths.ts'

test('the first segment of every path of the gateway is reserved', () => {
  const routes: readonly RouteRow[] = [...Object.values(ROUTES), ...Object.values(CLAUDE_ROUTES)]
  const paths = [
    ...routes.flatMap(({ path, also = [] }) => [...pathsOf(path), ...also]),
    ...[ADMIN_BASE, DASHBOARD_BASE, DOCS_BASE, ...Object.values(SIGN_IN_PATHS)],
    // Of clients of clouds (`cloud-paths.ts`, `google-path.ts`).
    ...['/model/x', '/inference-profiles', '/projects/x', '/publishers/x', '/v1alpha/x', '/v1beta1/x', '/llms.txt'],
  ]
  const missing = paths.map((path) => path.split('/')[1] ?? '').filter((segment) => !RESERVED_SEGMENTS.has(segment))
  assert.deepEqual([...new Set(missing)], [])
})
