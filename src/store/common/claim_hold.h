#pragma once
/* store/common/claim_hold.h - who is responsible for the tasks of a claim, which decides what happens to them if the
 * claim's node dies. The numbers are stored in column claims.hold. */

enum claim_hold {
    CLAIM_OWN,    /* the claiming node; after its death other nodes take the tasks over (OP_ORPHANS) */
    CLAIM_HANDED, /* a queue (OP_HANDOFF) */
    CLAIM_LEASED, /* an external worker, under a lease (struct lease_terms) */
};
