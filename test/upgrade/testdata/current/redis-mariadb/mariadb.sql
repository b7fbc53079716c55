/*M!999999\- enable the sandbox mode */ 

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;
DROP TABLE IF EXISTS `admin_actions`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `admin_actions` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `acted_at` datetime(3) NOT NULL,
  `actor` varchar(255) NOT NULL,
  `route` varchar(255) NOT NULL,
  `path` varchar(255) NOT NULL,
  `sale_id` varchar(255) NOT NULL,
  `order_id` varchar(255) NOT NULL,
  `status` int(11) NOT NULL,
  `code` varchar(255) NOT NULL,
  `request_id` varchar(255) NOT NULL,
  `address` varchar(255) NOT NULL,
  `node` varchar(255) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=10 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `admin_actions` DISABLE KEYS */;
INSERT INTO `admin_actions` VALUES
(1,'2026-11-30 11:30:21.283','admin','POST /v1/admin/sales','/v1/admin/sales','lamps','',201,'','OXJ4DG7YSW4E2D2H','127.0.0.1','bqhbkjct'),
(2,'2026-11-30 11:30:21.292','admin','POST /v1/admin/sales','/v1/admin/sales','phones','',201,'','ABBSBKJTHIP42DM7','127.0.0.1','bqhbkjct'),
(3,'2026-11-30 11:30:21.297','admin','PUT /v1/admin/sales/{sale}/lists/{list}','/v1/admin/sales/phones/lists/deny','phones','',200,'','B5FW42QKGKC7ZZ6C','127.0.0.1','bqhbkjct'),
(4,'2026-11-30 11:30:21.298','admin','POST /v1/admin/webhooks','/v1/admin/webhooks','','',201,'','TDF6NOU4LH3L633R','127.0.0.1','bqhbkjct'),
(5,'2026-11-30 11:30:21.358','admin','POST /v1/admin/orders/{order}/pay','/v1/admin/orders/phones.01a22c385e147512aefe2ee55b7c4d7d/pay','phones','phones.01a22c385e147512aefe2ee55b7c4d7d',200,'','NQE4DH62TK7EUEQS','127.0.0.1','bqhbkjct'),
(6,'2026-11-30 11:30:21.385','admin','POST /v1/admin/orders/{order}/pay','/v1/admin/orders/phones.01a22c385e30712a94d0d791ad268a99/pay','phones','phones.01a22c385e30712a94d0d791ad268a99',200,'','P4DD3OOKE4PQH6Q2','127.0.0.1','bqhbkjct'),
(7,'2026-11-30 11:30:21.388','admin','POST /v1/admin/orders/{order}/refund','/v1/admin/orders/phones.01a22c385e30712a94d0d791ad268a99/refund','phones','phones.01a22c385e30712a94d0d791ad268a99',200,'','FHXKSRQ3R5F5XABV','127.0.0.1','bqhbkjct'),
(8,'2026-11-30 11:30:21.419','admin','POST /v1/admin/orders/{order}/pay','/v1/admin/orders/phones.01a22c385e4e726fae4d5feade1f93fe/pay','phones','phones.01a22c385e4e726fae4d5feade1f93fe',200,'','FB4M7HBHO2KET3U5','127.0.0.1','bqhbkjct'),
(9,'2026-11-30 11:30:21.448','admin','POST /v1/admin/orders/{order}/reject','/v1/admin/orders/phones.01a22c385e6d7289b663afdd12e23499/reject','phones','phones.01a22c385e6d7289b663afdd12e23499',200,'','3JJJSVUSODVYNXUO','127.0.0.1','bqhbkjct');
/*!40000 ALTER TABLE `admin_actions` ENABLE KEYS */;
DROP TABLE IF EXISTS `dead_letters`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `dead_letters` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `sale_id` varbinary(255) NOT NULL,
  `epoch` bigint(20) NOT NULL,
  `entry_id` varbinary(255) NOT NULL,
  `reason` text NOT NULL,
  `claims` longblob NOT NULL,
  `first_seq` bigint(20) NOT NULL,
  `terms` bigint(20) NOT NULL,
  `node` text NOT NULL,
  `accepted_at` datetime(3) DEFAULT NULL,
  `created_at` datetime(3) NOT NULL,
  `resolved_at` datetime(3) DEFAULT NULL,
  `resolution` varchar(1024) NOT NULL DEFAULT '',
  PRIMARY KEY (`id`),
  UNIQUE KEY `dead_letters_entry` (`sale_id`,`epoch`,`entry_id`),
  KEY `dead_letters_open` (`resolved_at`,`sale_id`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `dead_letters` DISABLE KEYS */;
INSERT INTO `dead_letters` VALUES
(1,0x70686F6E6573,1,0x656E747279,'of the fixture',0x6E6F6E73656E7365,0,1,'node',NULL,'2026-11-30 11:30:22.000',NULL,'');
/*!40000 ALTER TABLE `dead_letters` ENABLE KEYS */;
DROP TABLE IF EXISTS `event_feed`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `event_feed` (
  `id` bigint(20) NOT NULL CHECK (`id` = 1),
  `first_event` bigint(20) NOT NULL DEFAULT 1 CHECK (`first_event` >= 1),
  `last_event` bigint(20) NOT NULL CHECK (`last_event` >= 0),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `event_feed` DISABLE KEYS */;
INSERT INTO `event_feed` VALUES
(1,1,19);
/*!40000 ALTER TABLE `event_feed` ENABLE KEYS */;
DROP TABLE IF EXISTS `gathered`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `gathered` (
  `sale_id` varbinary(48) NOT NULL,
  `epoch` bigint(20) NOT NULL,
  `node` varbinary(255) NOT NULL,
  `gathered_at` datetime(3) NOT NULL,
  PRIMARY KEY (`sale_id`,`epoch`,`node`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `gathered` DISABLE KEYS */;
/*!40000 ALTER TABLE `gathered` ENABLE KEYS */;
DROP TABLE IF EXISTS `leases`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leases` (
  `name` varbinary(255) NOT NULL,
  `holder` varbinary(255) NOT NULL,
  `fence` bigint(20) NOT NULL DEFAULT 0,
  `ttl` bigint(20) NOT NULL DEFAULT 0,
  `expires_at` datetime(3) NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `leases` DISABLE KEYS */;
INSERT INTO `leases` VALUES
(0x6576656E7473,'',1796038221274000,3000,'2026-11-30 11:30:25.530'),
(0x7265636F6E63696C65,'',1796038222269000,2000,'2026-11-30 11:30:24.269'),
(0x74696479,0x627168626B6A6374,1796038221273000,3540000,'2026-11-30 12:29:21.273'),
(0x776562686F6F6B73,'',1796038221276000,20000,'2026-11-30 11:30:41.276');
/*!40000 ALTER TABLE `leases` ENABLE KEYS */;
DROP TABLE IF EXISTS `nodes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `nodes` (
  `node` varbinary(255) NOT NULL,
  `ledger` varchar(255) NOT NULL DEFAULT '',
  `about` text NOT NULL,
  `seen_at` datetime(3) NOT NULL,
  PRIMARY KEY (`node`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `nodes` DISABLE KEYS */;
INSERT INTO `nodes` VALUES
(0x627168626B6A6374,'redis:cl3j4chsq6h54qq4xvb5','{\"version\":\"\",\"shared\":{\"admin_key\":\"11432379\",\"admin_keys\":\"none\",\"buyer_audience\":\"none\",\"buyer_id\":\"2fef003f\",\"buyer_issuer\":\"none\",\"buyer_jwks\":\"none\",\"buyer_secret\":\"a9a7385a\",\"ticket_secret\":\"4b41b10e\",\"webhook_key\":\"4cb6fa41\"},\"left\":true}','2026-11-30 11:30:22.550');
/*!40000 ALTER TABLE `nodes` ENABLE KEYS */;
DROP TABLE IF EXISTS `order_changes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `order_changes` (
  `position` bigint(20) NOT NULL AUTO_INCREMENT,
  `order_id` varbinary(81) NOT NULL,
  `changed_at` datetime(3) NOT NULL,
  `from_status` varbinary(16) NOT NULL,
  `to_status` varbinary(16) NOT NULL,
  `action` varbinary(16) NOT NULL,
  `changed_by` varchar(256) NOT NULL,
  `reason` varchar(1024) NOT NULL,
  `payment_id` varbinary(128) NOT NULL,
  `refused` varbinary(128) NOT NULL,
  `event` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`order_id`,`from_status`,`refused`),
  UNIQUE KEY `order_changes_position` (`position`),
  KEY `order_changes_event` (`event`,`position`),
  CONSTRAINT `order_changes_step` CHECK (`refused` <> '' or concat(`from_status`,' ',`to_status`) in ('pending paid','pending cancelled','pending expired','pending rejected','paid refunded','paid refund_due','cancelled refund_due','expired refund_due','rejected refund_due','refund_due refunded')),
  CONSTRAINT `order_changes_refused` CHECK (`refused` = '' or `from_status` = `to_status` and `payment_id` = '')
) ENGINE=InnoDB AUTO_INCREMENT=9 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `order_changes` DISABLE KEYS */;
INSERT INTO `order_changes` VALUES
(8,0x6C616D70732E3031613232633338356561333736303838633164656631666637393232373739,'2026-11-30 11:30:22.526',0x70656E64696E67,0x65787069726564,0x657870697265,'expiry','','','',19),
(1,0x70686F6E65732E3031613232633338356466343763373539623630623434626530613939613630,'2026-11-30 11:30:21.329',0x70656E64696E67,0x63616E63656C6C6564,0x63616E63656C,'buyer','','','',6),
(2,0x70686F6E65732E3031613232633338356531343735313261656665326565353562376334643764,'2026-11-30 11:30:21.356',0x70656E64696E67,0x70616964,0x706179,'admin','',0x7061796D656E742D62757965722D70616964,'',8),
(4,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939,'2026-11-30 11:30:21.387',0x70616964,0x726566756E646564,0x726566756E64,'admin','','','',11),
(3,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939,'2026-11-30 11:30:21.384',0x70656E64696E67,0x70616964,0x706179,'admin','',0x7061796D656E742D62757965722D726566756E646564,'',10),
(6,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665,'2026-11-30 11:30:21.418',0x63616E63656C6C6564,0x726566756E645F647565,0x706179,'admin','',0x7061796D656E742D62757965722D726566756E645F647565,'',14),
(5,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665,'2026-11-30 11:30:21.415',0x70656E64696E67,0x63616E63656C6C6564,0x63616E63656C,'buyer','','','',13),
(7,0x70686F6E65732E3031613232633338356536643732383962363633616664643132653233343939,'2026-11-30 11:30:21.446',0x70656E64696E67,0x72656A6563746564,0x72656A656374,'admin','no such address','','',16);
/*!40000 ALTER TABLE `order_changes` ENABLE KEYS */;
DROP TABLE IF EXISTS `order_events`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `order_events` (
  `position` bigint(20) NOT NULL AUTO_INCREMENT,
  `sale_id` varbinary(48) NOT NULL,
  `after_position` bigint(20) NOT NULL,
  `upto_position` bigint(20) NOT NULL,
  `orders` bigint(20) NOT NULL,
  `stored_at` datetime(3) NOT NULL,
  `event` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`position`),
  KEY `order_events_event` (`event`,`position`),
  KEY `order_events_of_sale` (`sale_id`,`upto_position`),
  CONSTRAINT `order_events_range` CHECK (`orders` >= 1 and `upto_position` > `after_position`)
) ENGINE=InnoDB AUTO_INCREMENT=8 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `order_events` DISABLE KEYS */;
INSERT INTO `order_events` VALUES
(1,0x70686F6E6573,0,1,1,'2026-11-30 11:30:21.305',5),
(2,0x70686F6E6573,1,2,1,'2026-11-30 11:30:21.335',7),
(3,0x70686F6E6573,2,3,1,'2026-11-30 11:30:21.362',9),
(4,0x70686F6E6573,3,4,1,'2026-11-30 11:30:21.392',12),
(5,0x70686F6E6573,4,5,1,'2026-11-30 11:30:21.423',15),
(6,0x70686F6E6573,5,6,1,'2026-11-30 11:30:21.453',17),
(7,0x6C616D7073,6,7,1,'2026-11-30 11:30:21.478',18);
/*!40000 ALTER TABLE `order_events` ENABLE KEYS */;
DROP TABLE IF EXISTS `orders`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `orders` (
  `position` bigint(20) NOT NULL AUTO_INCREMENT,
  `order_id` varbinary(81) NOT NULL,
  `sale_id` varbinary(48) NOT NULL,
  `buyer_id` varbinary(128) NOT NULL,
  `claim_key` varbinary(64) NOT NULL,
  `quantity` bigint(20) NOT NULL CHECK (`quantity` >= 1),
  `meta` varchar(512) NOT NULL,
  `counters` varchar(255) NOT NULL DEFAULT '',
  `price_amount` bigint(20) NOT NULL CHECK (`price_amount` >= 0),
  `currency` varbinary(3) NOT NULL,
  `status` varbinary(16) NOT NULL CHECK (`status` in ('pending','paid','rejected','cancelled','expired','refunded','refund_due')),
  `reason` text NOT NULL,
  `epoch` bigint(20) NOT NULL CHECK (`epoch` >= 1),
  `bucket` bigint(20) NOT NULL DEFAULT 0,
  `seq` bigint(20) NOT NULL CHECK (`seq` >= 1),
  `terms` bigint(20) NOT NULL CHECK (`terms` >= 1),
  `node` text NOT NULL,
  `accepted_at` datetime(3) NOT NULL,
  `stored_at` datetime(3) NOT NULL,
  `expires_at` datetime(3) NOT NULL,
  `keep_until` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `payment_id` varbinary(128) NOT NULL DEFAULT '',
  `unpaid` tinyint(1) NOT NULL DEFAULT 0,
  PRIMARY KEY (`position`),
  UNIQUE KEY `orders_order_id` (`order_id`),
  UNIQUE KEY `orders_claim` (`buyer_id`,`sale_id`,`claim_key`),
  UNIQUE KEY `orders_place` (`sale_id`,`epoch`,`bucket`,`seq`),
  KEY `orders_of_sale` (`sale_id`,`position`),
  KEY `orders_to_expire` (`status`,`keep_until`),
  CONSTRAINT `orders_times` CHECK (`expires_at` > `stored_at` and `keep_until` >= `expires_at` and `updated_at` >= `stored_at`)
) ENGINE=InnoDB AUTO_INCREMENT=8 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `orders` DISABLE KEYS */;
INSERT INTO `orders` VALUES
(1,0x70686F6E65732E3031613232633338356466343763373539623630623434626530613939613630,0x70686F6E6573,0x62757965722D63616E63656C6C6564,0x6B65792D6F662D62757965722D63616E63656C6C6564,1,'','',199900,0x434E59,0x63616E63656C6C6564,'',1,0,1,1,'bqhbkjct','2026-11-30 11:30:21.301','2026-11-30 11:30:21.305','2026-12-30 11:30:21.305','2026-12-30 11:30:21.305','2026-11-30 11:30:21.329','',1),
(2,0x70686F6E65732E3031613232633338356531343735313261656665326565353562376334643764,0x70686F6E6573,0x62757965722D70616964,0x6B65792D6F662D62757965722D70616964,1,'','',199900,0x434E59,0x70616964,'',1,0,2,1,'bqhbkjct','2026-11-30 11:30:21.332','2026-11-30 11:30:21.335','2026-12-30 11:30:21.335','2026-12-30 11:30:21.335','2026-11-30 11:30:21.356',0x7061796D656E742D62757965722D70616964,0),
(3,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939,0x70686F6E6573,0x62757965722D726566756E646564,0x6B65792D6F662D62757965722D726566756E646564,1,'','',199900,0x434E59,0x726566756E646564,'',1,0,3,1,'bqhbkjct','2026-11-30 11:30:21.360','2026-11-30 11:30:21.362','2026-12-30 11:30:21.362','2026-12-30 11:30:21.362','2026-11-30 11:30:21.387',0x7061796D656E742D62757965722D726566756E646564,0),
(4,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665,0x70686F6E6573,0x62757965722D726566756E645F647565,0x6B65792D6F662D62757965722D726566756E645F647565,1,'','',199900,0x434E59,0x726566756E645F647565,'',1,0,4,1,'bqhbkjct','2026-11-30 11:30:21.390','2026-11-30 11:30:21.392','2026-12-30 11:30:21.392','2026-12-30 11:30:21.392','2026-11-30 11:30:21.418',0x7061796D656E742D62757965722D726566756E645F647565,1),
(5,0x70686F6E65732E3031613232633338356536643732383962363633616664643132653233343939,0x70686F6E6573,0x62757965722D72656A6563746564,0x6B65792D6F662D62757965722D72656A6563746564,1,'','',199900,0x434E59,0x72656A6563746564,'no such address',1,0,5,1,'bqhbkjct','2026-11-30 11:30:21.421','2026-11-30 11:30:21.423','2026-12-30 11:30:21.423','2026-12-30 11:30:21.423','2026-11-30 11:30:21.446','',0),
(6,0x70686F6E65732E3031613232633338356538613763663461333666323433353838383664386139,0x70686F6E6573,0x62757965722D70656E64696E67,0x6B65792D6F662D62757965722D70656E64696E67,1,'','',199900,0x434E59,0x70656E64696E67,'',1,0,6,1,'bqhbkjct','2026-11-30 11:30:21.451','2026-11-30 11:30:21.453','2026-12-30 11:30:21.453','2026-12-30 11:30:21.453','2026-11-30 11:30:21.453','',0),
(7,0x6C616D70732E3031613232633338356561333736303838633164656631666637393232373739,0x6C616D7073,0x6C617465,0x6B65792D6F662D6C617465,1,'','',199900,0x434E59,0x65787069726564,'',1,0,1,1,'bqhbkjct','2026-11-30 11:30:21.475','2026-11-30 11:30:21.478','2026-11-30 11:30:22.478','2026-11-30 11:30:22.478','2026-11-30 11:30:22.526','',1);
/*!40000 ALTER TABLE `orders` ENABLE KEYS */;
DROP TABLE IF EXISTS `payments`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `payments` (
  `payment_id` varbinary(128) NOT NULL,
  `order_id` varbinary(81) NOT NULL,
  PRIMARY KEY (`payment_id`),
  UNIQUE KEY `payments_order_id` (`order_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `payments` DISABLE KEYS */;
INSERT INTO `payments` VALUES
(0x7061796D656E742D62757965722D70616964,0x70686F6E65732E3031613232633338356531343735313261656665326565353562376334643764),
(0x7061796D656E742D62757965722D726566756E646564,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939),
(0x7061796D656E742D62757965722D726566756E645F647565,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665);
/*!40000 ALTER TABLE `payments` ENABLE KEYS */;
DROP TABLE IF EXISTS `pictures`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pictures` (
  `sale_id` varbinary(48) NOT NULL,
  `id` varbinary(32) NOT NULL,
  `size` bigint(20) NOT NULL CHECK (`size` > 0),
  `jpeg` mediumblob NOT NULL,
  PRIMARY KEY (`sale_id`,`id`,`size`),
  CONSTRAINT `pictures_sale` FOREIGN KEY (`sale_id`) REFERENCES `sales` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `pictures` DISABLE KEYS */;
/*!40000 ALTER TABLE `pictures` ENABLE KEYS */;
DROP TABLE IF EXISTS `releases`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `releases` (
  `position` bigint(20) NOT NULL AUTO_INCREMENT,
  `order_id` varbinary(81) NOT NULL,
  `sale_id` varbinary(48) NOT NULL,
  `buyer_id` varbinary(128) NOT NULL,
  `claim_key` varbinary(64) NOT NULL,
  `quantity` bigint(20) NOT NULL CHECK (`quantity` >= 1),
  `unpaid` tinyint(1) NOT NULL DEFAULT 0,
  `epoch` bigint(20) NOT NULL CHECK (`epoch` >= 0),
  `created_at` datetime(3) NOT NULL,
  PRIMARY KEY (`position`),
  UNIQUE KEY `releases_order_id` (`order_id`),
  KEY `releases_of_sale` (`sale_id`,`position`)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `releases` DISABLE KEYS */;
/*!40000 ALTER TABLE `releases` ENABLE KEYS */;
DROP TABLE IF EXISTS `restocks`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `restocks` (
  `sale_id` varbinary(48) NOT NULL,
  `restock_id` varbinary(255) NOT NULL,
  `delta` bigint(20) NOT NULL CHECK (`delta` <> 0),
  `terms_version` bigint(20) NOT NULL CHECK (`terms_version` >= 2),
  `created_at` datetime(3) NOT NULL,
  PRIMARY KEY (`sale_id`,`restock_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `restocks` DISABLE KEYS */;
/*!40000 ALTER TABLE `restocks` ENABLE KEYS */;
DROP TABLE IF EXISTS `sale_buyers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sale_buyers` (
  `sale_id` varbinary(48) NOT NULL,
  `kind` varbinary(8) NOT NULL,
  `generation` bigint(20) NOT NULL,
  `buyer_id` varbinary(128) NOT NULL,
  PRIMARY KEY (`sale_id`,`kind`,`generation`,`buyer_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `sale_buyers` DISABLE KEYS */;
INSERT INTO `sale_buyers` VALUES
(0x70686F6E6573,0x64656E79,1796038221294,0x6D616C6C6F7279);
/*!40000 ALTER TABLE `sale_buyers` ENABLE KEYS */;
DROP TABLE IF EXISTS `sale_events`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sale_events` (
  `position` bigint(20) NOT NULL AUTO_INCREMENT,
  `sale_id` varbinary(48) NOT NULL,
  `type` varbinary(32) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `sale` longtext NOT NULL,
  `event` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`position`),
  KEY `sale_events_event` (`event`,`position`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `sale_events` DISABLE KEYS */;
INSERT INTO `sale_events` VALUES
(1,0x6C616D7073,0x73616C652E63726561746564,'2026-11-30 11:30:21.271','{\"ID\":\"lamps\",\"SKU\":\"sku\",\"Title\":\"手机 \\u0026 lamps\",\"Price\":{\"amount\":199900,\"currency\":\"CNY\"},\"ListPrice\":{\"amount\":0,\"currency\":\"\"},\"Free\":false,\"Version\":1,\"Total\":20,\"MaxPerBuyer\":2,\"MaxOrders\":11,\"MaxUnpaid\":2,\"OpensAt\":\"2026-11-30T11:29:21.268Z\",\"ClosesAt\":\"0001-01-01T00:00:00Z\",\"Paused\":false,\"PaymentWindow\":1000000000,\"PaymentGrace\":0,\"Rules\":{},\"Epoch\":0,\"LoadedEpoch\":0,\"Fence\":\"\",\"Ledger\":\"\",\"Taken\":0,\"Cap\":20,\"CreatedAt\":\"2026-11-30T11:30:21.271Z\",\"UpdatedAt\":\"2026-11-30T11:30:21.271Z\",\"ArchivedAt\":\"0001-01-01T00:00:00Z\"}',1),
(2,0x6C616D7073,0x73616C652E617661696C61626C65,'2026-11-30 11:30:21.281','{\"ID\":\"lamps\",\"SKU\":\"sku\",\"Title\":\"手机 \\u0026 lamps\",\"Price\":{\"amount\":199900,\"currency\":\"CNY\"},\"ListPrice\":{\"amount\":0,\"currency\":\"\"},\"Free\":false,\"Version\":1,\"Total\":20,\"MaxPerBuyer\":2,\"MaxOrders\":11,\"MaxUnpaid\":2,\"OpensAt\":\"2026-11-30T11:29:21.268Z\",\"ClosesAt\":\"0001-01-01T00:00:00Z\",\"Paused\":false,\"PaymentWindow\":1000000000,\"PaymentGrace\":0,\"Rules\":{},\"Epoch\":1,\"LoadedEpoch\":1,\"Fence\":\"\",\"Ledger\":\"redis:cl3j4chsq6h54qq4xvb5\",\"Taken\":0,\"Cap\":20,\"CreatedAt\":\"2026-11-30T11:30:21.271Z\",\"UpdatedAt\":\"2026-11-30T11:30:21.281Z\",\"ArchivedAt\":\"0001-01-01T00:00:00Z\"}',2),
(3,0x70686F6E6573,0x73616C652E63726561746564,'2026-11-30 11:30:21.285','{\"ID\":\"phones\",\"SKU\":\"sku\",\"Title\":\"手机 \\u0026 lamps\",\"Price\":{\"amount\":199900,\"currency\":\"CNY\"},\"ListPrice\":{\"amount\":0,\"currency\":\"\"},\"Free\":false,\"Version\":1,\"Total\":20,\"MaxPerBuyer\":2,\"MaxOrders\":11,\"MaxUnpaid\":2,\"OpensAt\":\"2026-11-30T11:29:21.284Z\",\"ClosesAt\":\"0001-01-01T00:00:00Z\",\"Paused\":false,\"PaymentWindow\":2592000000000000,\"PaymentGrace\":0,\"Rules\":{},\"Epoch\":0,\"LoadedEpoch\":0,\"Fence\":\"\",\"Ledger\":\"\",\"Taken\":0,\"Cap\":20,\"CreatedAt\":\"2026-11-30T11:30:21.285Z\",\"UpdatedAt\":\"2026-11-30T11:30:21.285Z\",\"ArchivedAt\":\"0001-01-01T00:00:00Z\"}',3),
(4,0x70686F6E6573,0x73616C652E617661696C61626C65,'2026-11-30 11:30:21.290','{\"ID\":\"phones\",\"SKU\":\"sku\",\"Title\":\"手机 \\u0026 lamps\",\"Price\":{\"amount\":199900,\"currency\":\"CNY\"},\"ListPrice\":{\"amount\":0,\"currency\":\"\"},\"Free\":false,\"Version\":1,\"Total\":20,\"MaxPerBuyer\":2,\"MaxOrders\":11,\"MaxUnpaid\":2,\"OpensAt\":\"2026-11-30T11:29:21.284Z\",\"ClosesAt\":\"0001-01-01T00:00:00Z\",\"Paused\":false,\"PaymentWindow\":2592000000000000,\"PaymentGrace\":0,\"Rules\":{},\"Epoch\":1,\"LoadedEpoch\":1,\"Fence\":\"\",\"Ledger\":\"redis:cl3j4chsq6h54qq4xvb5\",\"Taken\":0,\"Cap\":20,\"CreatedAt\":\"2026-11-30T11:30:21.285Z\",\"UpdatedAt\":\"2026-11-30T11:30:21.29Z\",\"ArchivedAt\":\"0001-01-01T00:00:00Z\"}',4);
/*!40000 ALTER TABLE `sale_events` ENABLE KEYS */;
DROP TABLE IF EXISTS `sale_lists`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sale_lists` (
  `sale_id` varbinary(48) NOT NULL,
  `kind` varbinary(8) NOT NULL CHECK (`kind` in ('allow','deny')),
  `generation` bigint(20) NOT NULL DEFAULT 0,
  `last_generation` bigint(20) NOT NULL DEFAULT 0,
  `size` bigint(20) NOT NULL DEFAULT 0 CHECK (`size` >= 0),
  `updated_at` datetime(3) NOT NULL,
  PRIMARY KEY (`sale_id`,`kind`),
  CONSTRAINT `sale_lists_sale` FOREIGN KEY (`sale_id`) REFERENCES `sales` (`id`),
  CONSTRAINT `sale_lists_generation` CHECK (`generation` between 0 and `last_generation`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `sale_lists` DISABLE KEYS */;
INSERT INTO `sale_lists` VALUES
(0x70686F6E6573,0x64656E79,1796038221294,1796038221294,1,'2026-11-30 11:30:21.296');
/*!40000 ALTER TABLE `sale_lists` ENABLE KEYS */;
DROP TABLE IF EXISTS `sale_terms`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sale_terms` (
  `sale_id` varbinary(48) NOT NULL,
  `version` bigint(20) NOT NULL CHECK (`version` >= 1),
  `total` bigint(20) DEFAULT NULL CHECK (`total` >= 0),
  `max_per_buyer` bigint(20) DEFAULT NULL CHECK (`max_per_buyer` >= 1),
  `max_orders` bigint(20) DEFAULT NULL CHECK (`max_orders` >= 1),
  `max_unpaid` bigint(20) DEFAULT NULL CHECK (`max_unpaid` >= 1),
  `opens_at` datetime(3) NOT NULL,
  `closes_at` datetime(3) DEFAULT NULL,
  `paused` tinyint(1) NOT NULL CHECK (`paused` in (0,1)),
  `changed_at` datetime(3) NOT NULL,
  PRIMARY KEY (`sale_id`,`version`),
  CONSTRAINT `sale_terms_sale` FOREIGN KEY (`sale_id`) REFERENCES `sales` (`id`),
  CONSTRAINT `sale_terms_window` CHECK (`closes_at` > `opens_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `sale_terms` DISABLE KEYS */;
INSERT INTO `sale_terms` VALUES
(0x6C616D7073,1,20,2,11,2,'2026-11-30 11:29:21.268',NULL,0,'2026-11-30 11:30:21.271'),
(0x70686F6E6573,1,20,2,11,2,'2026-11-30 11:29:21.284',NULL,0,'2026-11-30 11:30:21.285');
/*!40000 ALTER TABLE `sale_terms` ENABLE KEYS */;
DROP TABLE IF EXISTS `sales`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sales` (
  `id` varbinary(48) NOT NULL CHECK (`id` <> ''),
  `sku` varchar(256) NOT NULL,
  `title` varchar(256) NOT NULL,
  `price_amount` bigint(20) NOT NULL CHECK (`price_amount` >= 0),
  `price_currency` varbinary(3) NOT NULL CHECK (octet_length(`price_currency`) = 3),
  `list_price_amount` bigint(20) DEFAULT NULL CHECK (`list_price_amount` >= 0),
  `list_price_currency` varbinary(3) DEFAULT NULL,
  `free` tinyint(1) NOT NULL CHECK (`free` in (0,1)),
  `payment_window_ms` bigint(20) NOT NULL CHECK (`payment_window_ms` > 0),
  `payment_grace_ms` bigint(20) NOT NULL CHECK (`payment_grace_ms` >= 0),
  `rules` longtext NOT NULL DEFAULT '{}' CHECK (json_valid(`rules`)),
  `showcase` mediumtext NOT NULL DEFAULT '{}',
  `terms_version` bigint(20) NOT NULL CHECK (`terms_version` >= 1),
  `total` bigint(20) DEFAULT NULL CHECK (`total` >= 0),
  `max_per_buyer` bigint(20) DEFAULT NULL CHECK (`max_per_buyer` >= 1),
  `max_orders` bigint(20) DEFAULT NULL CHECK (`max_orders` >= 1),
  `max_unpaid` bigint(20) DEFAULT NULL CHECK (`max_unpaid` >= 1),
  `opens_at` datetime(3) NOT NULL,
  `closes_at` datetime(3) DEFAULT NULL,
  `paused` tinyint(1) NOT NULL CHECK (`paused` in (0,1)),
  `ledger` varchar(255) NOT NULL DEFAULT '',
  `epoch` bigint(20) NOT NULL CHECK (`epoch` >= 0),
  `loaded_epoch` bigint(20) NOT NULL,
  `fence` text NOT NULL,
  `taken` bigint(20) NOT NULL CHECK (`taken` >= 0),
  `cap` bigint(20) DEFAULT NULL,
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `archived_at` datetime(3) DEFAULT NULL,
  `erased_at` datetime(3) DEFAULT NULL,
  `purged_at` datetime(3) DEFAULT NULL,
  `remains` mediumtext DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `sales_live` (`archived_at`,`id`),
  KEY `sales_to_erase` (`erased_at`,`id`,`archived_at`),
  KEY `sales_to_purge` (`purged_at`,`id`,`archived_at`),
  CONSTRAINT `sales_list_price` CHECK (`list_price_currency` = `price_currency` and `list_price_amount` is null = (`list_price_currency` is null)),
  CONSTRAINT `sales_free` CHECK (`free` = 0 or `price_amount` = 0),
  CONSTRAINT `sales_window` CHECK (`closes_at` > `opens_at`),
  CONSTRAINT `sales_epochs` CHECK (`loaded_epoch` between 0 and `epoch`),
  CONSTRAINT `sales_cap` CHECK (`cap` is null = (`total` is null) and (`cap` is null or `cap` >= `total`)),
  CONSTRAINT `sales_no_oversell` CHECK (`cap` is null or `taken` <= `cap`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `sales` DISABLE KEYS */;
INSERT INTO `sales` VALUES
(0x6C616D7073,'sku','手机 & lamps',199900,0x434E59,NULL,NULL,0,1000,0,'{}','{}',1,20,2,11,2,'2026-11-30 11:29:21.268',NULL,0,'redis:cl3j4chsq6h54qq4xvb5',1,1,'',0,20,'2026-11-30 11:30:21.271','2026-11-30 11:30:21.281',NULL,NULL,NULL,NULL),
(0x70686F6E6573,'sku','手机 & lamps',199900,0x434E59,NULL,NULL,0,2592000000,0,'{}','{}',1,20,2,11,2,'2026-11-30 11:29:21.284',NULL,0,'redis:cl3j4chsq6h54qq4xvb5',1,1,'',2,20,'2026-11-30 11:30:21.285','2026-11-30 11:30:21.290',NULL,NULL,NULL,NULL);
/*!40000 ALTER TABLE `sales` ENABLE KEYS */;
DROP TABLE IF EXISTS `sluice_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sluice_schema` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `version_id` bigint(20) NOT NULL,
  `is_applied` tinyint(1) NOT NULL,
  `tstamp` datetime DEFAULT current_timestamp(),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `sluice_schema` DISABLE KEYS */;
INSERT INTO `sluice_schema` VALUES
(1,0,1,'2026-11-30 11:30:21'),
(2,1,1,'2026-11-30 11:30:21');
/*!40000 ALTER TABLE `sluice_schema` ENABLE KEYS */;
DROP TABLE IF EXISTS `stretches`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `stretches` (
  `sale_id` varbinary(48) NOT NULL,
  `begun_at` datetime(3) NOT NULL,
  `node` varbinary(255) NOT NULL,
  `ended` tinyint(1) NOT NULL CHECK (`ended` in (0,1)),
  `figures` mediumblob NOT NULL,
  PRIMARY KEY (`sale_id`,`begun_at`,`node`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `stretches` DISABLE KEYS */;
INSERT INTO `stretches` VALUES
(0x6C616D7073,'2026-11-30 11:30:21.000',0x627168626B6A6374,1,0x040001080409020A0100),
(0x70686F6E6573,'2026-11-30 11:30:21.000',0x627168626B6A6374,1,0x040006080409020A0100);
/*!40000 ALTER TABLE `stretches` ENABLE KEYS */;
DROP TABLE IF EXISTS `webhook_deliveries`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `webhook_deliveries` (
  `webhook_id` varbinary(64) NOT NULL,
  `event` bigint(20) NOT NULL,
  `subject` varbinary(81) NOT NULL,
  `state` varbinary(16) NOT NULL CHECK (`state` in ('pending','failed')),
  `attempts` bigint(20) NOT NULL CHECK (`attempts` >= 0),
  `next_at` datetime(3) NOT NULL,
  `last_status` bigint(20) NOT NULL,
  `last_error` text NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  PRIMARY KEY (`webhook_id`,`event`),
  KEY `webhook_deliveries_due` (`webhook_id`,`state`,`next_at`),
  KEY `webhook_deliveries_subject` (`webhook_id`,`subject`,`state`,`event`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `webhook_deliveries` DISABLE KEYS */;
INSERT INTO `webhook_deliveries` VALUES
(0x77685F626133626636303938336665356630636265303034373462,2,0x6C616D7073,0x70656E64696E67,1,'2026-11-30 11:30:26.265',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,3,0x70686F6E6573,0x70656E64696E67,1,'2026-11-30 11:30:27.147',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,4,0x70686F6E6573,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,5,0x70686F6E65732E3031613232633338356466343763373539623630623434626530613939613630,0x70656E64696E67,1,'2026-11-30 11:30:26.177',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,6,0x70686F6E65732E3031613232633338356466343763373539623630623434626530613939613630,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,7,0x70686F6E65732E3031613232633338356531343735313261656665326565353562376334643764,0x70656E64696E67,1,'2026-11-30 11:30:27.294',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,8,0x70686F6E65732E3031613232633338356531343735313261656665326565353562376334643764,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,9,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939,0x70656E64696E67,1,'2026-11-30 11:30:26.131',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,10,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,11,0x70686F6E65732E3031613232633338356533303731326139346430643739316164323638613939,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,12,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665,0x70656E64696E67,1,'2026-11-30 11:30:27.384',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,13,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,14,0x70686F6E65732E3031613232633338356534653732366661653464356665616465316639336665,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,15,0x70686F6E65732E3031613232633338356536643732383962363633616664643132653233343939,0x70656E64696E67,1,'2026-11-30 11:30:26.763',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,16,0x70686F6E65732E3031613232633338356536643732383962363633616664643132653233343939,0x70656E64696E67,0,'2026-11-30 11:30:21.784',0,'','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,17,0x70686F6E65732E3031613232633338356538613763663461333666323433353838383664386139,0x70656E64696E67,1,'2026-11-30 11:30:25.853',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784'),
(0x77685F626133626636303938336665356630636265303034373462,18,0x6C616D70732E3031613232633338356561333736303838633164656631666637393232373739,0x70656E64696E67,1,'2026-11-30 11:30:26.751',0,'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host','2026-11-30 11:30:21.784');
/*!40000 ALTER TABLE `webhook_deliveries` ENABLE KEYS */;
DROP TABLE IF EXISTS `webhooks`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `webhooks` (
  `position` bigint(20) NOT NULL AUTO_INCREMENT,
  `id` varbinary(64) NOT NULL,
  `url` varbinary(2048) NOT NULL,
  `description` varchar(256) NOT NULL,
  `secret` varbinary(128) NOT NULL,
  `types` text NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `disabled_at` datetime(3) DEFAULT NULL,
  `disabled_why` text NOT NULL,
  `last_event` bigint(20) NOT NULL CHECK (`last_event` >= 0),
  `delivered` bigint(20) NOT NULL,
  `failures` bigint(20) NOT NULL CHECK (`failures` >= 0),
  `retry_at` datetime(3) DEFAULT NULL,
  `last_success` datetime(3) DEFAULT NULL,
  `last_failure` datetime(3) DEFAULT NULL,
  `last_error` text NOT NULL,
  PRIMARY KEY (`position`),
  UNIQUE KEY `webhooks_id` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

/*!40000 ALTER TABLE `webhooks` DISABLE KEYS */;
INSERT INTO `webhooks` VALUES
(1,0x77685F626133626636303938336665356630636265303034373462,0x68747470733A2F2F73686F702E696E76616C69642F736C75696365,'of the fixture',0x73313A2F44412B626677704F48743941485467345A445156476478306869622F356E735467624159306A5A59624F6A637A6146704741575754646179515842706466414E544D57506B31735A3451563332642B,'','2026-11-30 11:30:21.298','2026-11-30 11:30:21.298',NULL,'',18,0,8,'2026-11-30 11:30:22.804',NULL,'2026-11-30 11:30:21.783','dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host');
/*!40000 ALTER TABLE `webhooks` ENABLE KEYS */;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

