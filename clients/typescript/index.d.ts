import type { Order, Placed, Problem as ProblemBody, Sale, Ticket } from "./api.js";

import type * as api from "./api.js";
export type { api };

/** What the server refused. `code` says why: see docs/codes.md. */
export class Problem extends Error {
  constructor(body: Partial<ProblemBody>, status: number, retryAfter?: number);
  code: string;
  status: number;
  title?: string;
  detail?: string;
  body: Partial<ProblemBody>;
  /** Seconds that the server asks to wait. */
  retryAfter?: number;
}

/** No usable answer came: whether the server has done what was asked is unknown. */
export class Lost extends Error {
  /** Of a claim: the same key gets the outcome. */
  key?: string;
}

export type Token = string | (() => string | Promise<string>);

export interface RequestOptions {
  token?: Token;
  signal?: AbortSignal;
  /** Milliseconds for the whole request; 10,000 unless set. */
  timeout?: number;
}

export interface ClaimOptions {
  /** Names the attempt: save it before you claim, and claim again with it until it is decided. */
  key?: string;
  quantity?: number;
  meta?: Record<string, unknown>;
  token?: Token;
  /** The ticket, or a function that gets one: again is true if the last one was refused. */
  ticket?: string | ((again: boolean) => string | null | undefined | Promise<string | null | undefined>);
  /** For a backend that claims in a buyer's place: the buyer's address. The server trusts it by trusted_proxies. */
  address?: string;
  signal?: AbortSignal;
  /** Milliseconds in which it tries again; 60,000 unless set, Infinity for a page. */
  patience?: number;
  onSend?: () => void;
  /** Called every second until the next try, with what is left in milliseconds. */
  onWait?: (problem: Problem | Lost, left: number) => void;
  /** Milliseconds until the next try after a refusal that would end the claim; undefined: end. */
  retry?: (problem: Problem | Lost) => number | undefined;
}

export interface Claimed extends Placed {
  key: string;
  /** An earlier try with this key was accepted: read the order before you show it. */
  replayed: boolean;
}

export interface AskOptions extends RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  /** The body, sent as JSON with POST unless there is another method. */
  json?: unknown;
  cache?: string;
}

/** What a buyer can do. */
export class Sluice {
  constructor(url?: string, options?: { token?: Token });
  ask(path: string, options?: AskOptions): Promise<any>;
  sales(options?: RequestOptions): Promise<Sale[]>;
  sale(sale: string, options?: RequestOptions): Promise<Sale>;
  /** The sale as it is and whenever it changes, until the connection ends. */
  stream(sale: string, options?: { signal?: AbortSignal }): AsyncGenerator<Sale, void>;
  /** A stream that connects again. */
  watch(sale: string, options?: { signal?: AbortSignal }): AsyncGenerator<Sale, void>;
  claim(sale: string, options?: ClaimOptions): Promise<Claimed>;
  /** Gets a ticket, and does the proof of work for it. */
  ticket(sale: string, options?: {
    risk?: string; onProgress?: (share: number) => void; signal?: AbortSignal; token?: Token;
  }): Promise<Ticket>;
  order(order: string, options?: RequestOptions): Promise<Order>;
  orders(options?: RequestOptions & { sale?: string }): AsyncGenerator<Order, void>;
  cancel(order: string, options?: RequestOptions): Promise<Order>;
}

/** One attempt of a buyer, kept in localStorage for all tabs: attempt.js says how. */
export interface Attempt {
  key: string;
  quantity: number;
  since: number;
  sent?: boolean;
  order?: string;
  earlier?: string;
}

export class Attempts {
  constructor(sale: string, buyer: string);
  get(): Attempt | null;
  put(attempt: Attempt | null): Attempt | null;
  update(key: string, change: Partial<Attempt>): void;
  press(quantity: number, since: number): Attempt;
  ready(): string;
  alone<T>(run: () => Promise<T>): Promise<T>;
  busy(): Promise<boolean>;
  idle(then: () => void): void;
  onChange(changed: () => void): () => void;
}

export function orderOf(attempt: Attempt | null): string | null;

/** A new Idempotency-Key. */
export function newKey(): string;

/** The server's clock, as well as it can be known here. */
export class Clock {
  constructor(base?: string);
  /** Half the way of the best sample, in milliseconds. */
  doubt: number;
  known(): boolean;
  now(): number;
  sync(): Promise<void>;
  at(time: number, callback: () => void): () => void;
}

/** Finds the nonce of a challenge. */
export function solve(
  challenge: string, difficulty: number, onProgress?: (share: number) => void, signal?: AbortSignal,
): Promise<string>;
