// SPDX-License-Identifier: Apache-2.0
// The passive side of the broker as a model for SPIN: one listener whose slot serves NREQ successive peers, the
// hand-over of a transport through the fd lane, the broker's death at any moment, and the application's
// re-attachment to the next broker while a stranger wants its port.
//
// The broker is one loop, so each of its steps is atomic. `hold[i]` says who keeps the socket of peer i open;
// the kernel tells the peer when nobody does. run.sh verifies this model and shows that each BUG_ variant,
// a mistake that somebody once made, is refuted.
#ifndef NREQ
#define NREQ 3
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define BROKER 1
#define FLIGHT 2
#define APP 4

mtype = { FREE, DELIVERED, ACCEPTING };             // The connector in the slot.
mtype = { NONE, OPEN, REPLIED, UP, REFUSED, OVER }; // What peer i believes.
mtype = { ACCEPT, REJECT, ACK, LISTEN, REATTACH };  // Operations of the application.
mtype = { NOBODY, OWNER, LEASE, STRANGER };         // Who has the listener's port.

mtype slot = FREE;
mtype peer[NREQ] = NONE;
mtype port = OWNER;
byte hold[NREQ], lease[NREQ];    // Sockets; 4-tuples in the broker's books.
byte epoch = 0, gen = 0, cur = 0; // The handle of the slot is {epoch, gen}.
byte began = 0, seen = 0;        // Requests made by peers, taken up by the broker.
byte unacked = 0;                // Hand-overs of this session that were not acknowledged.
byte waiting = 0;                // Operations of the application without completion: the slot's Accept.
byte crashes = 0;
bool alive = true, hung = false, session = true, listening = true, over = false;

chan to_app = [NREQ] of { byte, byte, byte };      // Connection request: handle, peer.
chan to_broker = [3] of { mtype, byte, byte, byte }; // Verb, handle, peer.
chan lane = [2] of { byte };                      // Transports in flight: peer.

#ifdef BUG_NO_GENERATION
#define MINE(e, g) true
#else
#define MINE(e, g) ((e) == epoch && (g) == gen)
#endif

inline let_go(i, who) {
  if
  :: hold[i] & who ->
       hold[i] = hold[i] & (7 - who);
       if
       :: hold[i] == 0 && peer[i] != REFUSED -> peer[i] = OVER
       :: else -> skip
       fi
  :: else -> skip
  fi
}
inline empty_slot() { slot = FREE; gen++ }
// Whatever the operation in the slot waits for, it is answered once.
inline complete() {
  if
  :: slot == ACCEPTING -> assert(waiting == 1); waiting--
  :: else -> skip
  fi
}
// The broker forgets everything that the session had.
inline end_session() {
  session = false;
#ifndef BUG_NO_RECLAIM
  if
  :: slot != FREE -> complete(); let_go(cur, BROKER); empty_slot()
  :: else -> skip
  fi;
#endif
  unacked = 0;
  x = 0;
  do
  :: x < NREQ -> lease[x] = 0; x++
  :: x == NREQ -> x = 0; break
  od
}
inline drop_messages() {
  do
  :: nempty(to_broker) -> to_broker?_, _, _, _
  :: empty(to_broker) -> break
  od;
  do
  :: nempty(to_app) -> to_app?_, _, _
  :: empty(to_app) -> break
  od
}

proctype Peer(byte me) {
  atomic { began == me -> peer[me] = OPEN; began++ }
  do
  :: atomic { peer[me] == OPEN -> peer[me] = OVER }  // It gives up,
  :: peer[me] == OPEN -> skip                        // or waits for ever.
  :: atomic { peer[me] == REPLIED -> if :: peer[me] = UP :: peer[me] = OVER fi } // Ready-to-receive frame.
  :: peer[me] == UP || peer[me] == REFUSED || peer[me] == OVER -> break
  od
}
init { byte n = 0; atomic { do :: n < NREQ -> run Peer(n); n++ :: n == NREQ -> break od } }

active proctype Stranger() {
  do
  :: atomic { port == NOBODY ->
       // Only when the owner died, hangs, or gave its port up may somebody else have it.
       assert(!alive || hung || over);
       port = STRANGER }
  :: atomic { port == STRANGER -> port = NOBODY }
  :: over -> break
  od
}

active proctype Broker() {
  mtype verb; byte e, g, i, x;
end_broker:
  do
  // A request arrives; without a listener it is refused at once.
  :: atomic { seen < began && slot == FREE && port == OWNER && listening ->
       if
       :: peer[seen] == OPEN -> cur = seen; hold[cur] = BROKER; slot = DELIVERED; to_app!epoch, gen, cur
       :: else -> skip
       fi; seen++ }
  :: atomic { seen < began && !(port == OWNER && listening) ->
       if
       :: peer[seen] == OPEN -> peer[seen] = REFUSED
       :: else -> skip
       fi; seen++ }
  // The peer withdrew, or did not confirm in time.
  :: atomic { slot != FREE && peer[cur] == OVER -> complete(); let_go(cur, BROKER); empty_slot() }
  :: atomic { slot == ACCEPTING && peer[cur] == REPLIED -> complete(); let_go(cur, BROKER); empty_slot() }
  // It confirmed: the transport leaves the broker, and only then the Accept completes.
  :: atomic { slot == ACCEPTING && peer[cur] == UP && nfull(lane) ->
#ifndef BUG_EPIPE
       if
       :: alive -> lane!cur; hold[cur] = hold[cur] | FLIGHT; lease[cur]++; unacked++
       :: else -> skip // sendmsg says EPIPE: as if the session had ended.
       fi;
#else
       lane!cur; hold[cur] = hold[cur] | FLIGHT; lease[cur]++; unacked++;
#endif
       complete();
#ifndef BUG_KEEP_DUPLICATE
       let_go(cur, BROKER);
#endif
       empty_slot() }
#ifndef BUG_NO_ACK_TIMER
  // Descriptors that nobody takes cost everybody: the session ends.
  :: atomic { session && unacked > 0 && hung -> end_session(); port = NOBODY; listening = false; drop_messages() }
#endif
  :: atomic { session && nempty(to_broker) -> to_broker?verb, e, g, i;
       if
       :: verb == ACCEPT ->
            if
            :: slot == DELIVERED && MINE(e, g) -> assert(cur == i); slot = ACCEPTING;
                 if
                 :: peer[cur] == OPEN -> peer[cur] = REPLIED
                 :: else -> skip
                 fi
            :: else -> waiting-- // INVALID_HANDLE
            fi
       :: verb == REJECT && slot == DELIVERED && MINE(e, g) -> assert(cur == i);
            if
            :: peer[cur] == OPEN -> peer[cur] = REFUSED
            :: else -> skip
            fi; let_go(cur, BROKER); empty_slot()
       :: verb == ACK && unacked > 0 -> unacked--
       :: verb == LISTEN && (port == LEASE || port == NOBODY) -> port = OWNER; listening = true
       :: verb == REATTACH ->
#ifdef BUG_REATTACH_TWICE
            lease[i]++
#else
            if
            :: lease[i] == 0 -> lease[i] = 1
            :: else -> skip // ADDRESS_ALREADY_EXISTS
            fi
#endif
       :: else -> skip
       fi;
       e = 0; g = 0; i = 0 }
  // The lane hung up.
  :: atomic { session && !alive && empty(to_broker) -> end_session();
       if
       :: port == OWNER -> port = NOBODY
       :: else -> skip
       fi; listening = false }
  // Nobody came back for the port in time.
  :: atomic { port == LEASE && (!alive || hung) -> port = NOBODY }
  // kill -9, and the next broker.
  :: atomic { crashes < CRASHES && !over -> crashes++;
       if
       :: slot == ACCEPTING -> waiting-- // The library answers what the old broker owed.
       :: else -> skip
       fi;
       if
       :: slot != FREE -> let_go(cur, BROKER)
       :: else -> skip
       fi;
       do
       :: nempty(to_broker) -> to_broker?verb, e, g, i;
            if
            :: verb == ACCEPT -> waiting--
            :: else -> skip
            fi
       :: empty(to_broker) -> break
       od;
       slot = FREE; session = false; listening = false; unacked = 0;
       x = 0;
       do
       :: x < NREQ -> lease[x] = 0; x++
       :: x == NREQ -> x = 0; break
       od;
       e = 0; g = 0; i = 0;
       gen = 0;
#ifndef BUG_SAME_EPOCH
       epoch++;
#endif
#ifdef BUG_NO_JOURNAL
       if
       :: port == OWNER || port == LEASE -> port = NOBODY
       :: else -> skip
       fi
#else
       if
       :: port == OWNER -> port = LEASE
       :: else -> skip
       fi
#endif
       }
  :: atomic { began == NREQ && seen == NREQ && slot == FREE && !session && !alive -> over = true; break }
  od
}

active proctype Application() {
  byte e, g, i, x;
  do
  // A request is answered, or not; at most one Accept waits at a time.
  :: atomic { alive && !hung && session && nempty(to_app) && nfull(to_broker) && waiting == 0 -> to_app?e, g, i;
       if
       :: to_broker!ACCEPT, e, g, i; waiting++
       :: to_broker!REJECT, e, g, i
       :: skip
       fi; e = 0; g = 0; i = 0 }
  :: atomic { alive && !hung && session && nempty(lane) && nfull(to_broker) -> lane?i;
       hold[i] = (hold[i] | APP) & (7 - FLIGHT); to_broker!ACK, 0, 0, i; i = 0 }
  // What the lane still had when the broker died is taken, too.
  :: atomic { alive && !hung && !session && nempty(lane) -> lane?i;
       hold[i] = (hold[i] | APP) & (7 - FLIGHT); i = 0 }
  // The next broker: a session, the listener, then every connection that lives; two threads may ask for one.
  :: atomic { alive && !hung && !session && empty(lane) && empty(to_broker) -> session = true;
       to_broker!LISTEN, 0, 0, 0; i = 0;
       do
       :: i < NREQ && len(to_broker) < 2 && (hold[i] & APP) -> to_broker!REATTACH, 0, 0, i;
            if
            :: to_broker!REATTACH, 0, 0, i
            :: skip
            fi; i++
       :: i < NREQ && (len(to_broker) >= 2 || !(hold[i] & APP)) -> i++
       :: i == NREQ -> i = 0; break
       od }
  // It hangs: alive, everything open, answers nothing. Or it dies, and the kernel closes what it had.
  :: atomic { alive && !hung -> hung = true }
  :: alive && hung -> skip
  :: atomic { alive -> alive = false; hung = false; waiting = 0;
       if
       :: slot == ACCEPTING -> waiting = 1 // What the broker still counts.
       :: else -> skip
       fi;
       do
       :: nempty(to_broker) -> to_broker?_, _, _, _
       :: empty(to_broker) -> break
       od;
       do
       :: nempty(lane) -> lane?i; let_go(i, FLIGHT)
       :: empty(lane) -> break
       od;
       i = 0;
       do
       :: i < NREQ -> let_go(i, APP); i++
       :: i == NREQ -> i = 0; break
       od;
       break }
  od
}

// A 4-tuple is in the books once at most.
ltl once { [] (lease[0] <= 1 && lease[1] <= 1 && lease[NREQ - 1] <= 1) }
// In the end nothing is left: no operation, no socket, no lease, and no peer that believes in a connection.
ltl clean { [] (over -> (waiting == 0 && unacked == 0 && slot == FREE && hold[0] == 0 && hold[1] == 0 &&
  hold[NREQ - 1] == 0 && lease[0] == 0 && lease[1] == 0 && lease[NREQ - 1] == 0 && peer[0] != UP &&
  peer[1] != UP && peer[NREQ - 1] != UP)) }
// A session that does not take its descriptors does not keep them in flight.
ltl bounded { [] ((unacked > 0 && hung) -> <> (unacked == 0 || !hung)) }
// The slot of an application that is gone is free again.
ltl freed { [] ((slot != FREE && !alive) -> <> (slot == FREE)) }
